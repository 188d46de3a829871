"""Many processes that record side by side, and processes killed at random moments: no acknowledged run is lost."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL
from store.postgres_server import PostgresServer, start_server

from curator_bench.store.database import database_url, open_for_writing

FULL = os.environ.get("CURATOR_BENCH_PROOF") == "full"
PROCESSES = 8
RUNS = 500 if FULL else 50
KILLS = 50 if FULL else 5

RECORD = """
import sys
from datetime import UTC, datetime
from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.recorder import Recorder
from curator_bench.store.records import InvocationRecord, RunEnd, RunStart, SessionRecord
from curator_bench.values import Repeat, Verdict

url, results, invocation, runs = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
database = open_for_writing(database_url(url))
now = datetime.now(UTC)
recorder = Recorder(database, SessionRecord("proof", results), InvocationRecord(invocation, now))
metrics = {f"metric_{number}": number / 7 for number in range(20)}
repeats = tuple(Repeat(index, 0, 1.0, metrics) for index in (1, 2))
for number in range(runs):
    uid = recorder.start_run(RunStart(f"run_{number}", "m.yaml", now))
    recorder.finish_run(uid, RunEnd(Verdict.PASSED, now, metrics=metrics, params={"n": number}, repeats=repeats))
    print(uid, flush=True)
print("problems", *recorder.problems(), flush=True)
database.close()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    started = start_server()
    yield started
    started.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> URL:
    if request.param == "sqlite":
        return database_url(tmp_path / "benchmark.db")
    server: PostgresServer = request.getfixturevalue("server")
    return database_url(server.new_database())


def recording(url: URL, results: Path, invocation: str, runs: int) -> subprocess.Popen[str]:
    named = url.render_as_string(hide_password=False)
    command = [sys.executable, "-c", RECORD, named, str(results), invocation, str(runs)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def asked(url: URL, statement: str) -> list[tuple[Any, ...]]:
    with open_for_writing(url) as database, database.reading() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(statement)]


def acknowledged(output: str) -> set[str]:
    """A line that a kill cut short was not acknowledged."""
    return {line.strip() for line in output.splitlines(keepends=True) if line.endswith("\n") and len(line) == 33}


def test_many_processes_record_side_by_side_without_losing_a_run(url: URL, tmp_path: Path) -> None:
    children = [recording(url, tmp_path / "results", f"invocation_{number}", RUNS) for number in range(PROCESSES)]
    outputs = [child.communicate(timeout=1800) for child in children]
    assert [error for _, error in outputs] == [""] * PROCESSES
    assert [output.splitlines()[-1] for output, _ in outputs] == ["problems"] * PROCESSES
    told = set().union(*(acknowledged(output) for output, _ in outputs))
    assert len(told) == PROCESSES * RUNS
    assert {uid for (uid,) in asked(url, "SELECT uid FROM test_run WHERE verdict = 'passed'")} == told
    assert asked(url, "SELECT count(*) FROM test_run") == [(PROCESSES * RUNS,)]
    assert asked(url, "SELECT count(*) FROM metric") == [(PROCESSES * RUNS * 20,)]
    assert asked(url, "SELECT count(*) FROM sample") == [(PROCESSES * RUNS * 40,)]
    assert asked(url, "SELECT count(*) FROM bench_session") == [(1,)]
    assert asked(url, "SELECT count(*) FROM invocation") == [(PROCESSES,)]


def test_a_process_killed_at_any_moment_loses_no_run_it_acknowledged(url: URL, tmp_path: Path) -> None:
    """Two at a time, one of which is killed; the database is opened by whoever comes next."""
    told: set[str] = set()
    other = recording(url, tmp_path / "results", "never_killed", 10**9)
    for kill in range(KILLS):
        child = recording(url, tmp_path / "results", f"killed_{kill}", 10**9)
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(random.uniform(0, 0.2))
        child.kill()
        rest, error = child.communicate(timeout=60)
        assert error == ""
        told |= acknowledged(first + rest)
    assert other.poll() is None
    other.kill()
    output, error = other.communicate(timeout=60)
    told |= acknowledged(output)
    assert error == ""
    assert len(told) > KILLS
    complete = "SELECT r.uid FROM test_run r JOIN metric m ON m.run = r.id WHERE r.verdict = 'passed'"
    whole = {uid for (uid,) in asked(url, f"{complete} GROUP BY r.uid HAVING count(*) = 20")}
    assert told <= whole
    assert {uid for (uid,) in asked(url, complete)} == whole
