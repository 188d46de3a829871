"""The sink that docs/sinks.md writes works as it stands there, and its matrix loads."""

from __future__ import annotations

import re
from pathlib import Path

from end_to_end.conftest import Project

from curator_bench.matrix import LoadRequest, load

PAGE = (Path(__file__).parents[2] / "docs" / "sinks.md").read_text()
FILES = dict(re.findall(r"^```(?:python|yaml)\n# ([\w.]+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


def test_the_sink_of_the_page_is_told_of_slow_runs(tmp_path: Path) -> None:
    project = Project(tmp_path)
    (tmp_path / "slow_runs.py").write_text(FILES["slow_runs.py"])
    for limit_s in (0, 1000):
        project.matrix(project.entry("slow"), sinks=[{"name": "./slow_runs.py:SlowRuns", "limit_s": limit_s}])
        assert project.run("--benchmark", "-n0").code == 0
    (line,) = (tmp_path / "slow_runs.txt").read_text().splitlines()
    assert line.startswith("slow took ")


def test_the_matrix_of_the_page_loads(tmp_path: Path) -> None:
    (tmp_path / "sinks.yaml").write_text(FILES["sinks.yaml"])
    matrix = load(LoadRequest(files=(tmp_path / "sinks.yaml",), working_dir=tmp_path))
    assert [sink.name for sink in matrix.files[0].sinks] == ["mlflow", "slack", "jsonl"]
