"""pytest-cov: it sees what it sees without benchmarks, and no traced time gets into the history.

In processes of their own: coverage starts with an interpreter.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from other_plugins.conftest import Repository

COVERAGE = ("--cov", "library", "--cov-report", "term-missing")
PATCHED = "[run]\npatch = subprocess\n"


def measure(repository: Repository, *options: str, **variables: str) -> str:
    words = [sys.executable, "-m", "pytest", "-pno:randomly", "--benchmark", "--bench-session", "s", *options]
    env = {**os.environ, "CURATOR_BENCH_DISTURBED": "apart", **variables}
    done = subprocess.run(words, cwd=repository.folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def log(repository: Repository) -> str:
    return (repository.session / "plain" / "logs" / "stdouterr.log").read_text()


@pytest.mark.parametrize("configuration", ["", PATCHED], ids=["as it comes", "of subprocesses"])
def test_scripts_are_not_traced(repository: Repository, configuration: str) -> None:
    repository.write(".coveragerc", configuration)
    output = measure(repository, *COVERAGE, "-k", "plain or unit")
    assert log(repository) == "traced: False\n"
    (covered,) = [line.split() for line in output.splitlines() if line.startswith("library.py")]
    assert covered[1:] == ["4", "1", "75%", "6"]
    assert [file.name for file in repository.folder.glob(".coverage*") if file.name != ".coveragerc"] == [".coverage"]


def test_a_script_is_traced_where_its_entry_asks_for_it(repository: Repository) -> None:
    repository.write(".coveragerc", "[run]\nparallel = true\n")
    matrix = repository.folder / "benchmarks" / "matrix.yaml"
    asked = f"script: script.py, env: {{COVERAGE_PROCESS_START: {repository.folder}/.coveragerc}}}}"
    matrix.write_text(matrix.read_text().replace("plain, script: script.py}", f"plain, {asked}", 1))
    measure(repository, "-k", "plain", "benchmarks")
    assert log(repository) == "traced: True\n"


def test_traced_python_benchmarks_are_no_history(repository: Repository) -> None:
    output = measure(repository, *COVERAGE, "-k", "sorting and 10", "benchmarks")
    said = "disturbed, so it is no part of history: its Python code was traced by coverage, which slows it down"
    assert f"warning: test_sorting[10]: {said}" in output
    measure(repository, "-k", "sorting and 10", "benchmarks")
    assert [bool(disturbed) for disturbed in repository.rows("disturbed")] == [True, False]
