"""A folder to run plans in: scripts are given as code, and what they need to tell comes back in their metrics."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from curator_bench.execution.run import run_entry
from curator_bench.execution.workbench import Workbench
from curator_bench.measure.processes import Mark, ProcessId, find_processes
from curator_bench.values import Plan, RunResult

WRITES_ITS_FILES = """
import json, os, sys, time
from pathlib import Path

def results_dir():
    place = sys.argv.index("--benchmark-results-path")
    return Path(sys.argv[place + 1])

def write(metrics, params=None):
    results_dir().joinpath("params.json").write_text(json.dumps(params or {}))
    results_dir().joinpath("metrics.json").write_text(json.dumps(metrics))
"""


class Desk:
    """Where a test writes scripts, plans runs of them, and looks at what they leave."""

    def __init__(self, folder: Path, bench: Workbench) -> None:
        self.folder = folder
        self.bench = bench
        self.session_dir = folder / "results" / "session"
        self.entry_dir = self.session_dir / "entry"
        self.log = self.entry_dir / "logs" / "stdouterr.log"

    def script(self, code: str, name: str = "script.py") -> str:
        """A script that may call `write(metrics)`."""
        path = self.folder / name
        path.write_text(WRITES_ITS_FILES + textwrap.dedent(code))
        return str(path)

    def plan(self, code: str, *args: str, **fields: Any) -> Plan:
        plan = Plan(
            name="entry",
            session="session",
            session_dir=str(self.session_dir),
            entry_dir=str(self.entry_dir),
            python=sys.executable,
            script=self.script(code),
            args=args,
            working_dir=str(self.folder),
            timeout_s=30.0,
        )
        return replace(plan, **fields)

    def run(self, code: str, *args: str, **fields: Any) -> RunResult:
        return run_entry(self.plan(code, *args, **fields), self.bench)

    def processes(self) -> frozenset[ProcessId]:
        """All that is there of this bench's runs."""
        return find_processes(Mark(self.bench.marker))


@pytest.fixture(scope="session")
def workbench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    with Workbench(tmp_path_factory.mktemp("session")) as bench:
        yield bench


@pytest.fixture
def desk(tmp_path: Path, workbench: Workbench) -> Desk:
    return Desk(tmp_path, workbench)
