"""A repository with unit tests and benchmarks, whose pytest has the plugins that people use with it.

`make test-plugins` runs these tests, in an environment with those plugins. Elsewhere they are not collected.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import warm

if find_spec("pytest_rerunfailures") is None:
    collect_ignore_glob = ["test_*.py"]

FILES = {
    "pytest.ini": """
[pytest]
testpaths = tests benchmarks
pythonpath = .
asyncio_default_fixture_loop_scope = function
""",
    "library.py": "def double(number):\n    return 2 * number\n\n\ndef unused():\n    return 0\n",
    "tests/test_unit.py": """
from library import double


def test_one():
    assert double(1) == 2


def test_two():
    assert double(2) == 4
""",
    "benchmarks/matrix.yaml": """
ray: false
results_dir: ../results
default_timeout_s: 60
entries:
  - {name: plain, script: script.py}
  - {name: axes, script: script.py, args: "{size} {kind}", matrix: {size: [1, 2], kind: [a, b]}}
  - {name: slow, script: script.py, requirements: [{metric: speed, min_value: 1000}]}
  - {name: crashes, script: script.py, args: crash}
  - {name: flaky, script: script.py, args: flaky}
""",
    "benchmarks/script.py": """
import json
import sys
import time
from pathlib import Path

results = Path(sys.argv[sys.argv.index("--benchmark-results-path") + 1])
tried = Path(__file__).with_name("tried")
print("traced:", "coverage" in sys.modules)
if "crash" in sys.argv:
    sys.exit(3)
if "flaky" in sys.argv and not tried.exists():
    tried.touch()
    sys.exit(3)
if "hang" in sys.argv:
    time.sleep(60)
if "sleep" in sys.argv:
    time.sleep(0.5)
sys.path.append(str(Path(__file__).parents[1]))
import library
library.unused()
(results / "params.json").write_text("{}")
(results / "metrics.json").write_text(json.dumps({"is_success": True, "speed": 5.0}))
""",
    "benchmarks/test_python.py": """
import asyncio
import random
from pathlib import Path

import pytest


@pytest.mark.parametrize("size", [10, 20])
def test_sorting(benchmark_time, record_metric, size):
    numbers = [random.random() for _ in range(size)]
    record_metric("first", numbers[0])
    with benchmark_time:
        numbers.sort()


def test_flaky(benchmark_time, record_metric):
    tried = Path(__file__).with_name("tried_here")
    if tried.exists():
        record_metric("second", 1)
    else:
        record_metric("first", 1)
        tried.touch()
        raise AssertionError("the first time")


@pytest.mark.asyncio
async def test_awaits(benchmark_time):
    with benchmark_time:
        await asyncio.sleep(0.1)
""",
}


@dataclass(frozen=True)
class Repository:
    """The repository, and what its pytest recorded."""

    folder: Path

    def write(self, name: str, text: str) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run(self, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run pytest, with all of its plugins but the one that changes the order."""
        order = () if any("randomly" in option for option in options) else ("-p", "no:randomly")
        return warm.run("pytest", *order, *options, cwd=self.folder, env={**os.environ, **variables})

    def measure(self, *options: str, expect: int = 0, **variables: str) -> str:
        """Run pytest with --benchmark, in the session `s`. Returns its output."""
        done = self.run("--benchmark", "--bench-session", "s", *options, **variables)
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout

    def rows(self, columns: str = "name, attempt, verdict") -> list[Any]:
        """The recorded runs, in the order in which they began; of one column, its values."""
        with sqlite3.connect(self.folder / "benchmark.db") as database:
            rows = database.execute(f"SELECT {columns} FROM test_run ORDER BY start").fetchall()
        return [row[0] for row in rows] if "," not in columns else rows

    @property
    def session(self) -> Path:
        return self.folder / "results" / "s"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    found = Repository(tmp_path)
    for name, text in FILES.items():
        found.write(name, text)
    return found
