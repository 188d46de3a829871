"""All users of a machine can read the arguments of a process, so the database of a hunt's pytest is not among them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from curator_bench.hunting.alternation import Comparison
from curator_bench.hunting.bench import Bench
from curator_bench.hunting.sides import Side

SHOWS_ITS_ARGUMENTS = """
import json, pathlib, sys
def pytest_unconfigure(config):
    pathlib.Path(__file__).with_name("arguments.json").write_text(json.dumps(sys.orig_argv))
"""
SCRIPT = """
import os, pathlib, sys
results = pathlib.Path(sys.argv[sys.argv.index("--benchmark-results-path") + 1])
for name in ("metrics.json", "params.json"):
    results.joinpath(name).write_text('{"seen": %s}' % int("word.db" in str(os.environ)))
"""
URL = "sqlite:///{folder}/word.db"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "conftest.py").write_text(SHOWS_ITS_ARGUMENTS)
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "matrix.yaml").write_text("entries: [{name: one, script: script.py, ray: false}]")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("how", ["bisect", "ab"])
def test_the_database_is_in_no_argument_of_pytest(project: Path, how: str) -> None:
    database = URL.format(folder=project)
    if how == "bisect":
        bench = Bench("one", "seen", database, ("matrix.yaml",))
        assert bench.measure("s", 1) == ""
        assert bench.runs("s").values == (0.0,), "scripts do not see it either"
    else:
        side = Side("a", sys.executable, ("matrix.yaml",), project)
        Comparison([side], "s", database).measure_round(1, set(), lambda _: None)
    assert "word.db" not in (project / "arguments.json").read_text()
    assert "--benchmark" in json.loads((project / "arguments.json").read_text())
