"""A project with a matrix, whose benchmarks are run as its users run them: pytest in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import warm
from hung_processes import outputs_of
from plugins_of_others import WITHOUT_OTHERS

from curator_bench.measure.processes import Mark, ProcessId, find_processes

SCRIPT = """
import argparse, json, os, signal, subprocess, sys, time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--benchmark-results-path", type=Path)
parser.add_argument("--say", default="at work")
parser.add_argument("--metrics", default="{}", type=json.loads)
parser.add_argument("--sleep", type=float, default=0.0)
parser.add_argument("--until", type=Path, default=Path("/"))
parser.add_argument("--stubborn", action="store_true")
parser.add_argument("--daemon", action="store_true")
parser.add_argument("--exit", type=int, default=0)
options = parser.parse_args()
if options.stubborn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if options.daemon:
    subprocess.Popen(["sleep", "600"], start_new_session=True)
print(options.say, flush=True)
while not options.until.exists():
    time.sleep(0.05)
time.sleep(options.sleep)
results = options.benchmark_results_path
results.joinpath("params.json").write_text(json.dumps({"sleep": options.sleep}))
results.joinpath("metrics.json").write_text(json.dumps({"is_success": True, **options.metrics}))
sys.exit(options.exit)
"""


@dataclass(frozen=True)
class Outcome:
    """What came of one pytest."""

    code: int
    output: str
    session_dir: Path

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()

    def json(self, *path: str) -> Any:
        return json.loads(self.session_dir.joinpath(*path).read_text("utf-8"))

    def has(self, *texts: str) -> bool:
        """Whether these stand in the output, in this order, each on a line of its own."""
        lines = iter(self.lines)
        return all(any(text in line for line in lines) for text in texts)


class Project:
    """A folder with a matrix and `script.py`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.session_dir = folder / "results" / "s"
        self.mark = Mark(uuid.uuid4().hex, "CURATOR_BENCH_TEST")
        self.write("script.py", SCRIPT)
        self.write("pytest.ini", "[pytest]\n")

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(textwrap.dedent(text))
        return path

    def entry(self, name: str, args: str = "", **keys: Any) -> dict[str, Any]:
        return {"name": name, "script": "script.py", "args": args, **keys}

    def matrix(self, *entries: dict[str, Any], **keys: Any) -> None:
        """As JSON, which is YAML too; without Ray unless told."""
        self.write("matrix.yaml", json.dumps({"ray": False, "default_timeout_s": 60, **keys, "entries": entries}))

    def command(self, *options: str) -> list[str]:
        own = ["--bench-results", "results", "--bench-session", "s"]
        without = ["-pno:cacheprovider", *WITHOUT_OTHERS]
        return [sys.executable, "-m", "pytest", "matrix.yaml", *own, *without, *options]

    def environment(self, **variables: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "RAY_"))}
        return {**kept, "COLUMNS": "100", "PYTHONUTF8": "1", **self.mark.environment(), **variables}

    @staticmethod
    def heed_signals() -> None:
        """As at a prompt, also where these tests run under nohup or in the background of a script."""
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)

    @staticmethod
    def ignore_signals() -> None:
        """As with nohup, or in the background of a script."""
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def start(
        self, *options: str, output: Any = subprocess.PIPE, background: bool = False, **variables: str
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*options),
            cwd=self.folder,
            env=self.environment(**variables),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output == subprocess.PIPE else output,
            text=True,
            start_new_session=True,
            preexec_fn=self.ignore_signals if background else self.heed_signals,
        )

    def outcome(self, process: subprocess.Popen[str], within_s: float = 120) -> Outcome:
        output, _ = outputs_of(process, within_s)
        return Outcome(process.returncode, output, self.session_dir)

    def run(self, *options: str, **variables: str) -> Outcome:
        """Start it and wait for its end; for whoever watches or kills it there is `start`."""
        if any(name.startswith("PYTHON") for name in variables):  # read when an interpreter starts
            return self.outcome(self.start(*options, background=False, **variables))
        _, _, *words = self.command(*options)
        done = warm.run(*words, cwd=self.folder, env=self.environment(**variables), stderr_apart=False)
        return Outcome(done.returncode, done.stdout, self.session_dir)

    def outcome_of(self, entry: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.session_dir / entry / "results.json").read_text("utf-8"))
        return found

    def processes(self) -> frozenset[ProcessId]:
        """All that came of it, pytest and its guard included."""
        return find_processes(self.mark)


@pytest.fixture(scope="session")
def new_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Project]:
    return lambda: Project(tmp_path_factory.mktemp("project"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)
