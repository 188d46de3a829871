"""Kills everything at random moments under `pytest -n 2`: no run that was acknowledged may be missing or half there."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

KILLS = 100 if os.environ.get("CURATOR_BENCH_PROOF") == "full" else 4
ENTRIES = 12

SCRIPT = """
import pathlib, sys
results = pathlib.Path(sys.argv[sys.argv.index("--benchmark-results-path") + 1])
results.joinpath("params.json").write_text("{}")
results.joinpath("metrics.json").write_text('{"is_success": true, "n": 1}')
"""
# A line is written once the run has been recorded: the item's call is over, and judging it completed the row.
CONFTEST = """
import os, pytest

@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item):
    yield
    line = f"{os.environ['ROUND']} {item.name}\\n".encode()
    file = os.open(os.environ["ACKNOWLEDGED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line)
    os.close(file)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    entries = [f"  - {{name: entry_{number}, script: work.py, ray: false}}" for number in range(ENTRIES)]
    tmp_path.joinpath("matrix.yaml").write_text("\n".join(["entries:", *entries]))
    tmp_path.joinpath("work.py").write_text(SCRIPT)
    tmp_path.joinpath("conftest.py").write_text(CONFTEST)
    tmp_path.joinpath("pytest.ini").write_text("[pytest]\n")
    return tmp_path


def run_and_kill(project: Path, number: int, after_s: float) -> None:
    """pytest and both workers are killed at once, in the middle of whatever they do."""
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "matrix.yaml",
        "--benchmark",
        "--bench-session",
        f"s{number}",
    ]
    env = {**os.environ, "ROUND": str(number), "ACKNOWLEDGED": str(project / "acknowledged")}
    process = subprocess.Popen(
        words, cwd=project, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def acknowledged(project: Path) -> set[tuple[str, str]]:
    file = project / "acknowledged"
    lines = file.read_text().splitlines() if file.exists() else []
    return {(f"s{number}", name) for number, name in (line.split() for line in lines)}


def recorded(project: Path, verdict: str) -> list[tuple[str, str]]:
    query = "select s.name, r.name from test_run r join bench_session s on s.id = r.session where r.verdict = ?"
    with sqlite3.connect(project / "benchmark.db") as connection:
        return connection.execute(query, [verdict]).fetchall()


def test_no_acknowledged_run_is_lost(project: Path) -> None:
    moments = random.Random(20)
    began = time.monotonic()
    run_and_kill(project, 0, 120)
    whole_s = time.monotonic() - began
    for number in range(1, KILLS + 1):
        run_and_kill(project, number, moments.uniform(0.3, 1.0) * whole_s)
    time.sleep(1)
    last = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "matrix.yaml",
        "--benchmark",
        "--bench-session",
        "last",
        "-k",
        "entry_0",
    ]
    env = {**os.environ, "ROUND": "last", "ACKNOWLEDGED": str(project / "ignored")}
    subprocess.run(last, cwd=project, env=env, check=True, capture_output=True, timeout=120)

    known, passed = acknowledged(project), recorded(project, "passed")
    assert len(known) > ENTRIES, "nothing was acknowledged before it was killed"
    assert len(passed) == len(set(passed))
    assert known <= set(passed)
    assert not recorded(project, "running")
    with sqlite3.connect(project / "benchmark.db") as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
        without_metrics = "not exists (select 1 from metric where run = r.id)"
        half = f"select count(*) from test_run r where verdict = 'passed' and {without_metrics}"
        assert connection.execute(half).fetchone() == (0,)
    print(f"{KILLS} kills, {len(known)} acknowledged runs, {len(passed)} recorded, 0 lost")
