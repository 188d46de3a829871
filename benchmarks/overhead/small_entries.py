"""Matrices of entries that do next to nothing, run by pytest; what scripts beside this file share."""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_process import Took, run, run_pytest, with_plugin

EMPTY_SCRIPT = """\
import pathlib, sys

results = pathlib.Path(sys.argv[sys.argv.index("--benchmark-results-path") + 1])
results.joinpath("params.json").write_text("{}")
results.joinpath("metrics.json").write_text('{"is_success": true}')
"""


def write_script(project: Path, text: str = EMPTY_SCRIPT) -> None:
    (project / "work.py").write_text(text)


def write_matrix(project: Path, entries: int, ray: str) -> Path:
    path = project / f"entries_{entries}.yaml"
    lines = [f"  - {{name: entry_{number}, script: work.py, ray: {ray}}}" for number in range(entries)]
    path.write_text("\n".join(["entries:", *lines]) + "\n")
    return path


def run_matrix(matrix: Path) -> Took:
    return run_pytest(["-q", *with_plugin(), matrix.name], matrix.parent)


def run_by_hand(project: Path, *arguments: str) -> Took:
    results = project / "by_hand"
    results.mkdir(exist_ok=True)
    command = [sys.executable, "work.py", *arguments, "--benchmark-results-path", str(results)]
    return run(command, project)
