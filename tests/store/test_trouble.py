"""What happens to runs when the database fails in mid-session."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import event

from curator_bench.importing import exported_runs
from curator_bench.importing.found_runs import FoundRun
from curator_bench.measure.processes import busyness
from curator_bench.store import unrecorded
from curator_bench.store.database import WRITE_PATIENCE_S, Database, database_url, open_for_writing
from curator_bench.store.recorder import Recorder
from curator_bench.store.records import StoredRun
from curator_bench.store.rows import Place, add_or_complete, join_invocation, join_session
from curator_bench.values import Repeat

if TYPE_CHECKING:
    from store.conftest import Bench
    from store.postgres_server import PostgresServer

FEW_SECONDS = 8.0


def record(bench: Bench, recorder: Recorder, name: str) -> str:
    uid = recorder.start_run(bench.start(name))
    recorder.finish_run(uid, bench.end(metrics={"rate": 1.5}))
    return uid


def kept_runs(file: Path) -> list[StoredRun]:
    return [found.record for found in exported_runs.read(file) if isinstance(found, FoundRun)]


def kept_names(bench: Bench) -> list[str]:
    return [run.start.name for run in kept_runs(bench.session_dir / unrecorded.FILE_NAME)]


def refuse_writing(database: Database) -> None:
    """What SQLite says of a file system that has become read-only."""

    @event.listens_for(database.engine, "checkout")
    def refuse(connection: object, record: object, proxy: object) -> None:
        connection.execute("PRAGMA query_only = ON")  # type: ignore[attr-defined]


def test_what_a_read_only_file_cannot_take_is_kept_and_said(sqlite_bench: Bench) -> None:
    recorder = sqlite_bench.recorder(database := sqlite_bench.open())
    record(sqlite_bench, recorder, "before")
    refuse_writing(database)
    record(sqlite_bench, recorder, "after[dense]")
    recorder.finish_invocation(0)
    assert kept_names(sqlite_bench) == ["after[dense]"]
    file = sqlite_bench.session_dir / "unrecorded.jsonl"
    first, second = recorder.problems()
    assert first == (
        f"1 run not recorded in {sqlite_bench.url.database} (attempt to write a readonly database), kept in {file}:"
        f" `curator-bench import {file}` imports them"
    )
    assert "the end of this invocation is not recorded" in second
    assert sqlite_bench.rows("test_run", "name") == [("before",)]


FULL_DISK = """
import json, resource, sys
from datetime import UTC, datetime
from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.recorder import Recorder
from curator_bench.store.records import StoredRun
from curator_bench.store.records import InvocationRecord, RunEnd, RunStart, SessionRecord
from curator_bench.values import Verdict

now = datetime.now(UTC)
database = open_for_writing(database_url(sys.argv[1]))
recorder = Recorder(database, SessionRecord("nightly", sys.argv[2]), InvocationRecord("x", now))
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))  # no file grows beyond: as on a disk that is full
for number in range(200):
    uid = recorder.start_run(RunStart(f"run_{number}", "m.yaml", now))
    recorder.finish_run(uid, RunEnd(Verdict.PASSED, now, metrics={f"metric_{i}": i for i in range(50)}))
print(json.dumps(recorder.problems()))
"""


def test_on_a_full_disk_every_run_is_in_the_database_or_in_the_file_or_named_as_lost(sqlite_bench: Bench) -> None:
    command = [sys.executable, "-c", FULL_DISK, str(sqlite_bench.url.database), str(sqlite_bench.results)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    problems = json.loads(done.stdout)
    recorded = {name for name, verdict in sqlite_bench.rows("test_run", "name", "verdict") if verdict == "passed"}
    kept = set(kept_names(sqlite_bench))
    assert recorded
    assert kept
    assert not recorded & kept
    assert problems[0].startswith(f"{len(kept)} runs not recorded in {sqlite_bench.url.database} (")
    lost = 200 - len(recorded | kept)
    assert len(problems) == 1 + (lost > 0)
    if lost:
        assert problems[1].startswith(f"{lost} run")
        assert "and lost" in problems[1]
    assert sorted(sqlite_bench.rows("metric", "name"))


def test_a_half_written_line_is_taken_back(tmp_path: Path, sqlite_bench: Bench) -> None:
    """The limit stands for a disk that is full after half a line; it would end this process but for Python."""
    code = (
        "import resource, sys\n"
        "from curator_bench.files.locking import append_whole, locked\n"
        "from pathlib import Path\n"
        "def append(line):\n"
        "    with locked(Path(sys.argv[1])) as file:\n"
        "        append_whole(file, line, sync=True)\n"
        "append(b'first\\n')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
        "try:\n"
        "    append(b'second\\n')\n"
        "except OSError:\n"
        "    print(Path(sys.argv[1]).read_text())\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "f"], capture_output=True, text=True, check=True)
    assert done.stdout == "first\n\n"


def test_what_nothing_can_take_is_named(
    sqlite_bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = sqlite_bench.recorder(database := sqlite_bench.open())
    refuse_writing(database)
    (sqlite_bench.session_dir / unrecorded.FILE_NAME).mkdir(
        parents=True
    )  # nothing can be added to a folder, by root either
    record(sqlite_bench, recorder, "removal[dense]")
    (problem,) = recorder.problems()
    assert problem.startswith("1 run not recorded in")
    assert problem.endswith("and lost, because no file took them: removal[dense]")
    assert "removal[dense] is not recorded anywhere" in caplog.text


def test_recording_goes_on_when_the_trouble_is_over(sqlite_bench: Bench) -> None:
    recorder = sqlite_bench.recorder(database := sqlite_bench.open())
    with open_for_writing(sqlite_bench.url) as other, other.writing():
        recorder.patience_s = 1.5
        uid = recorder.start_run(sqlite_bench.start("started_in_trouble"))
        record(sqlite_bench, recorder, "wholly_in_trouble")
    assert recorder.patience_s < 1.5
    recorder.finish_run(uid, sqlite_bench.end(metrics={"rate": 1.0}))
    assert recorder.patience_s == WRITE_PATIENCE_S
    record(sqlite_bench, recorder, "afterwards")
    assert sqlite_bench.rows("test_run", "name", "verdict") == [
        ("afterwards", "passed"),
        ("started_in_trouble", "passed"),
    ]
    assert sqlite_bench.rows("metric", "value") == [(1.0,), (1.5,)]
    assert kept_names(sqlite_bench) == ["wholly_in_trouble"]
    assert len(recorder.problems()) == 1
    assert database


def test_a_database_that_is_busy_for_long_holds_runs_up_for_seconds_only(sqlite_bench: Bench) -> None:
    recorder = sqlite_bench.recorder(sqlite_bench.open())
    recorder.patience_s = 0.05  # as after a first failure
    with open_for_writing(sqlite_bench.url) as other, other.writing():
        record(sqlite_bench, recorder, "first")
        start = time.monotonic()
        record(sqlite_bench, recorder, "second")
        assert time.monotonic() - start < FEW_SECONDS * busyness()


def test_a_file_that_was_removed_or_replaced_takes_no_runs_with_it(sqlite_bench: Bench) -> None:
    recorder = sqlite_bench.recorder(sqlite_bench.open())
    record(sqlite_bench, recorder, "before")
    path = Path(str(sqlite_bench.url.database))
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink()
    record(sqlite_bench, recorder, "removed")
    open_for_writing(sqlite_bench.url).close()
    record(sqlite_bench, recorder, "made_anew")
    assert kept_names(sqlite_bench) == ["removed"]
    assert "removed or replaced" in recorder.problems()[0]
    assert sqlite_bench.rows("test_run", "name") == [("made_anew",)]


@pytest.fixture
def on_own_server(own_server: PostgresServer, bench_class: type[Bench], tmp_path: Path) -> Iterator[Bench]:
    made = bench_class(database_url(own_server.new_database()), tmp_path / "results")
    yield made
    made.close()


@pytest.fixture
def bench_class(sqlite_bench: Bench) -> type[Bench]:
    return type(sqlite_bench)


def test_a_lost_connection_is_made_anew_without_losing_a_run(on_own_server: Bench, own_server: PostgresServer) -> None:
    recorder = on_own_server.recorder()
    uid = recorder.start_run(on_own_server.start("first"))
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'curator-bench'"
    own_server.execute(cut)
    recorder.finish_run(uid, on_own_server.end(metrics={"rate": 1.5}))
    own_server.execute(cut)
    record(on_own_server, recorder, "second")
    assert recorder.problems() == ()
    assert on_own_server.rows("test_run", "name", "verdict") == [("first", "passed"), ("second", "passed")]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["shut down", "killed"])
def test_runs_are_kept_while_a_server_is_away(
    on_own_server: Bench, own_server: PostgresServer, how: signal.Signals
) -> None:
    recorder = on_own_server.recorder()
    record(on_own_server, recorder, "before")
    uid = recorder.start_run(on_own_server.start("across"))
    own_server.stop(how)
    start = time.monotonic()
    record(on_own_server, recorder, "away")
    recorder.heartbeat([uid])
    assert time.monotonic() - start < FEW_SECONDS * busyness()
    own_server.start()
    recorder.finish_run(uid, on_own_server.end())
    record(on_own_server, recorder, "back")
    found = on_own_server.rows("test_run", "name", "verdict")
    assert found == [("across", "passed"), ("back", "passed"), ("before", "passed")]
    assert kept_names(on_own_server) == ["away"]
    assert len(recorder.problems()) == 1


def test_a_table_that_is_locked_holds_runs_up_for_seconds_only(
    on_own_server: Bench, own_server: PostgresServer
) -> None:
    """Another session holds it, as a stuck migration would."""
    import psycopg

    recorder = on_own_server.recorder()
    record(on_own_server, recorder, "before")
    locked = on_own_server.url.set(drivername="postgresql").render_as_string()
    with psycopg.connect(locked) as other:
        other.execute("LOCK TABLE test_run IN ACCESS EXCLUSIVE MODE")
        start = time.monotonic()
        record(on_own_server, recorder, "locked")
        assert time.monotonic() - start < 1.5 * FEW_SECONDS * busyness()
    assert kept_names(on_own_server) == ["locked"]


def test_a_server_that_falls_silent_holds_runs_up_for_seconds_only(
    on_own_server: Bench, own_server: PostgresServer
) -> None:
    recorder = on_own_server.recorder()
    record(on_own_server, recorder, "before")
    own_server.pause()
    start = time.monotonic()
    record(on_own_server, recorder, "silence")
    assert time.monotonic() - start < 2 * FEW_SECONDS * busyness()
    own_server.go_on()
    record(on_own_server, recorder, "afterwards")
    assert kept_names(on_own_server) == ["silence"]
    assert on_own_server.rows("test_run", "name") == [("afterwards",), ("before",)]


def test_what_was_kept_is_all_there_is_of_a_run(bench: Bench) -> None:
    """`curator-bench import` makes the same rows of it that would have been made then."""
    database = bench.open()
    recorder = bench.recorder(database, reason="because")
    repeats = tuple(Repeat(index, 0, 1.0, {"rate": float(index)}) for index in (1, 2))
    start = bench.start(host="here", machine_id="m1")
    end = bench.end(metrics={"rate": 1.5, "nan": float("nan"), "ok": True}, params={"a": "1"}, repeats=repeats)
    recorder.finish_run(recorder.start_run(start), end)
    tables = {
        "test_run": ("uid", "name", "start", "end", "machine_id", "verdict"),
        "metric": ("name", "value", "text"),
        "sample": ("repeat", "metric", "value"),
        "param": ("name", "value"),
        "bench_session": ("uid", "name", "reason"),
        "invocation": ("uid", "host"),
    }
    written = {table: bench.rows(table, *columns) for table, columns in tables.items()}
    whole = StoredRun(recorder.session, recorder.invocation, start, end)
    file = unrecorded.keep(bench.session_dir, whole)
    assert json.loads(file.read_text())["schema_version"] == 1
    with database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM test_run")
        connection.exec_driver_sql("DELETE FROM bench_session")
    for expected in (True, False):
        with database.writing() as connection:
            (run,) = kept_runs(file)
            session = join_session(connection, run.session)
            assert run.invocation is not None
            place = Place(session, join_invocation(connection, session, run.invocation))
            assert add_or_complete(connection, place, run) is expected
    assert {table: bench.rows(table, *columns) for table, columns in tables.items()} == written
