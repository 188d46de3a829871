"""What is old is forgotten; nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from curator_bench.store import prune as pruning
from curator_bench.store.database import Database, open_for_writing
from curator_bench.store.prune import Pruned, compact, prunable, prune
from curator_bench.store.recorder import Recorder
from curator_bench.store.records import InvocationRecord, SessionRecord
from curator_bench.store.schema import Base
from curator_bench.store.tables import RUNS, SESSIONS
from curator_bench.values import Check, Repeat

if TYPE_CHECKING:
    from store.conftest import Bench


def record(bench: Bench, database: Database, day: int, session: str, *, ends: bool = True) -> None:
    moment = bench.moment + timedelta(days=day)
    recorder = Recorder(
        database, SessionRecord(session, "/results", session), InvocationRecord(f"{session} {day}", moment)
    )
    uid = recorder.start_run(bench.start(f"run {day}", start=moment))
    if ends:
        repeats = tuple(Repeat(index, 0, 1.0, {"rate": 1.0}) for index in (1, 2))
        checks = (Check("rate", "min_value", 2, 1, met=False),)
        recorder.finish_run(uid, bench.end(metrics={"rate": 1.0}, params={"a": 1}, repeats=repeats, checks=checks))


def test_old_runs_go_with_all_that_belongs_to_them_and_sessions_left_empty_go_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "AT_ONCE", 1)
    database = bench.open()
    for day, session in ((0, "old"), (1, "old"), (2, "both"), (5, "both"), (6, "new")):
        record(bench, database, day, session)
    before = bench.moment + timedelta(days=5)
    found = prunable(database, before)
    assert (found.runs, found.entries, found.oldest) == (3, 3, bench.moment)
    told: list[tuple[int, int]] = []
    assert prune(database, before, lambda done, total: told.append((done, total))) == Pruned(runs=3, sessions=1)
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert bench.rows("test_run", "name") == [("run 5",), ("run 6",)]
    assert bench.rows("bench_session", "uid") == [("both",), ("new",)]
    assert bench.rows("invocation", "uid") == [("both 5",), ("new 6",)]
    for table, count in (("metric", 2), ("sample", 4), ("param", 2), ("requirement", 2)):
        assert len(bench.rows(table, "run")) == count, table
    assert prune(database, before) == Pruned(0, 0)


def test_a_run_under_way_and_a_session_that_has_just_begun_stay(bench: Bench) -> None:
    database = bench.open()
    record(bench, database, 0, "long", ends=False)
    now = bench.moment + timedelta(days=100)
    Recorder(database, SessionRecord("begun", "/results", "begun"), InvocationRecord("begun", now)).start_invocation()
    assert prunable(database, now).runs == 0
    assert prune(database, now) == Pruned(0, 0)
    assert bench.rows("bench_session", "uid") == [("begun",), ("long",)]
    assert bench.rows("test_run", "verdict") == [("running",)]


def test_what_another_table_refers_to_stays(bench: Bench) -> None:
    """As a decision about a run would, which is kept for good."""
    decisions = sa.Table(
        "decision",
        Base.metadata,
        sa.Column("run", sa.ForeignKey("test_run.id")),
        sa.Column("session", sa.ForeignKey("bench_session.id")),
        sa.Column("part_of", sa.ForeignKey("test_run.id", ondelete="CASCADE")),
    )
    try:
        database = bench.open()
        for day in range(3):
            record(bench, database, day, f"session {day}")
        with database.writing() as connection:
            decisions.create(connection)
            first, _, third = connection.scalars(sa.select(RUNS.c.id).order_by(RUNS.c.start)).all()
            kept = connection.scalar(sa.select(SESSIONS.c.id).where(SESSIONS.c.uid == "session 1"))
            connection.execute(sa.insert(decisions), {"run": first, "session": kept})
            connection.execute(sa.insert(decisions), {"part_of": third})
        assert prune(database, bench.moment + timedelta(days=9)) == Pruned(runs=2, sessions=1)
        assert bench.rows("test_run", "name") == [("run 0",)]
        assert bench.rows("bench_session", "uid") == [("session 0",), ("session 1",)]
    finally:
        Base.metadata.remove(decisions)


def test_a_file_becomes_smaller(sqlite_bench: Bench, content: Callable[[Database], dict[str, Any]]) -> None:
    path = Path(str(sqlite_bench.url.database))
    with open_for_writing(sqlite_bench.url) as database:
        recorder = sqlite_bench.recorder(database)
        for number in range(200):
            metrics = {f"metric {index}": number for index in range(50)}
            recorder.finish_run(
                recorder.start_run(sqlite_bench.start(f"run {number}")), sqlite_bench.end(metrics=metrics)
            )
        record(sqlite_bench, database, 9, "new")
    full = path.stat().st_size
    with open_for_writing(sqlite_bench.url) as database:
        prune(database, sqlite_bench.moment + timedelta(days=1))
        left = content(database)
        assert compact(database) is None
        assert content(database) == left
    assert path.stat().st_size < full / 2


def test_a_file_is_not_made_smaller_while_runs_are_under_way(bench: Bench) -> None:
    """They would have to wait for it."""
    database = bench.open()
    record(bench, database, 0, "long", ends=False)
    why_not = compact(database)
    assert why_not == ("runs are under way, which would have to wait for it" if "sqlite" in str(bench.url) else None)


def test_a_file_that_is_busy_keeps_its_size_and_says_why(sqlite_bench: Bench) -> None:
    database, other = sqlite_bench.open(), sqlite_bench.open()
    with database.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout = 10")  # the pool gives the same connection again
    with other.writing():
        assert compact(database) == "database is locked"
