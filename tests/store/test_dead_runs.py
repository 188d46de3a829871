from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from curator_bench.store.dead_runs import Here, mark_interrupted

if TYPE_CHECKING:
    from store.conftest import Bench

NOW = datetime(2026, 1, 23, 15, 0, tzinfo=UTC)
ALIVE = {11: 1000.0, 12: 2000.0}
HERE = Here("here", "this-boot", ALIVE.get)


@pytest.mark.parametrize(
    ("host", "boot", "pid", "started", "silent_s", "gone"),
    [
        ("here", "this-boot", 11, 1000.0, 0, False),
        ("here", "this-boot", 11, 1000.0, 9999, False),
        ("here", "this-boot", 13, 1000.0, 0, True),
        ("here", "this-boot", 12, 1000.0, 0, True),
        ("here", "last-boot", 11, 1000.0, 0, True),
        ("elsewhere", "this-boot", 11, 1000.0, 299, False),
        ("elsewhere", "its-boot", 11, 1000.0, 301, True),
        (None, None, None, None, 299, False),
        (None, None, None, None, 301, True),
    ],
    ids=[
        *("its process runs", "its process runs but is silent", "its process is gone", "its number was given again"),
        *("before the last boot", "elsewhere", "elsewhere and silent", "nobody knows where", "and silent"),
    ],
)
def test_a_run_is_interrupted_when_its_process_is_gone(
    bench: Bench, host: str | None, boot: str | None, pid: int | None, started: float | None, silent_s: int, gone: bool
) -> None:
    recorder = bench.recorder(database := bench.open())
    last_sign = NOW - timedelta(seconds=silent_s)
    recorder.start_run(bench.start(host=host, boot_id=boot, pid=pid, process_start=started, start=last_sign))
    assert mark_interrupted(database, HERE, NOW) == gone
    ((verdict, error),) = bench.rows("test_run", "verdict", "error")
    assert verdict == ("interrupted" if gone else "running")
    assert (error is not None) == gone
    assert mark_interrupted(database, HERE, NOW) == 0


def test_only_runs_that_have_not_ended_are_marked(bench: Bench) -> None:
    recorder = bench.recorder(database := bench.open())
    for name in ("finished", "running", "also_running"):
        uid = recorder.start_run(bench.start(name, host="here", boot_id="last-boot", pid=11, process_start=1.0))
        if name == "finished":
            recorder.finish_run(uid, bench.end())
    assert mark_interrupted(database, HERE, NOW) == 2
    found = bench.rows("test_run", "name", "verdict")
    assert found == [("also_running", "interrupted"), ("finished", "passed"), ("running", "interrupted")]


def test_an_interrupted_run_ended_with_its_last_sign_of_life(bench: Bench) -> None:
    recorder = bench.recorder(database := bench.open())
    recorder.heartbeat([recorder.start_run(bench.start(host="here", boot_id="last-boot", pid=11, process_start=1.0))])
    mark_interrupted(database, HERE, NOW)
    ((end, heartbeat),) = bench.rows("test_run", "end", "heartbeat_at")
    assert end == heartbeat


KILLED = """
import os, signal, sys
from datetime import UTC, datetime
from curator_bench.measure.processes import identify
from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.recorder import Recorder
from curator_bench.store.records import InvocationRecord, RunEnd, RunStart, SessionRecord
from curator_bench.values import Verdict

now = datetime.now(UTC)
database = open_for_writing(database_url(sys.argv[1]))
recorder = Recorder(database, SessionRecord("nightly", sys.argv[2]), InvocationRecord("killed", now))
where = dict(host="here", boot_id="this-boot", pid=os.getpid(), process_start=identify(os.getpid()).started)
finished = recorder.start_run(RunStart("finished", "m.yaml", now, **where))
recorder.finish_run(finished, RunEnd(Verdict.PASSED, now))
recorder.start_run(RunStart("running", "m.yaml", now, **where))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_is_marked_when_the_database_is_next_opened_for_writing(bench: Bench) -> None:
    from curator_bench.measure.processes import identify

    def process_start(pid: int) -> float | None:
        process = identify(pid)
        return process.started if process else None

    url = bench.url.render_as_string(hide_password=False)
    killed = subprocess.run([sys.executable, "-c", KILLED, url, str(bench.results)], check=False)
    assert killed.returncode == -signal.SIGKILL
    here = Here("here", "this-boot", process_start)
    own = bench.start(
        "ours", host="here", boot_id="this-boot", pid=os.getpid(), process_start=process_start(os.getpid())
    )
    bench.recorder().start_run(own)
    bench.open(here=here)
    assert bench.rows("test_run", "name", "verdict") == [
        ("finished", "passed"),
        ("ours", "running"),
        ("running", "interrupted"),
    ]


def test_looking_for_orphans_does_not_search_all_runs(sqlite_bench: Bench) -> None:
    from curator_bench.store.running import IS_RUNNING, RUNS

    with sqlite_bench.open().reading() as connection:
        asked = f"EXPLAIN QUERY PLAN SELECT 1 FROM {RUNS} WHERE {IS_RUNNING} LIMIT 1"
        plan = " ".join(str(row) for row in connection.exec_driver_sql(asked))
    assert "ix_test_run_running" in plan
