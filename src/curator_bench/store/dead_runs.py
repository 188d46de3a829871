"""Dead runs: a run whose process is gone is marked interrupted when the database is next opened for writing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, bindparam, select, text, update

from curator_bench.store.running import IS_RUNNING, RUNS
from curator_bench.values import Verdict

if TYPE_CHECKING:
    from curator_bench.store.database import Database

SILENCE = timedelta(minutes=5)
"""Longest silence of a run on another host before it counts as gone."""
_ANY = text(f"SELECT 1 FROM {RUNS} WHERE {IS_RUNNING} LIMIT 1")


@dataclass(frozen=True, slots=True)
class Here:
    """Identity of this machine, and how it looks up processes.

    Use the same means as when the run started. `process_start` returns the start time of the process with that pid;
    None if there is none.
    """

    host: str
    boot_id: str
    process_start: Callable[[int], float | None]


def mark_interrupted(database: Database, here: Here, now: datetime | None = None) -> int:
    """Mark runs whose process is gone; return how many. A run that is alive after all is corrected when it ends."""
    with database.reading() as connection:
        if connection.execute(_ANY).first() is None:
            return 0
    return _mark(database, here, now or datetime.now(UTC))


def _mark(database: Database, here: Here, now: datetime) -> int:
    from curator_bench.store.schema import TestRun

    marking = (
        update(TestRun)
        .where(TestRun.id == bindparam("the_id"), text(IS_RUNNING))
        .values(verdict=str(Verdict.INTERRUPTED), end=TestRun.heartbeat_at, error=bindparam("why"))
    )
    with database.writing() as connection:
        gone = gone_runs(connection, here, now)
        if gone:
            connection.execute(marking, [{"the_id": run, "why": why} for run, why in gone.items()])
    return len(gone)


def gone_runs(connection: Connection, here: Here, now: datetime | None = None) -> dict[int, str]:
    """Find the runs that are recorded as running but whose process is gone, by row id, with the reason."""
    if connection.execute(_ANY).first() is None:
        return {}
    from curator_bench.store.schema import TestRun

    columns = (TestRun.id, TestRun.host, TestRun.boot_id, TestRun.pid, TestRun.process_start, TestRun.heartbeat_at)
    running = connection.execute(select(*columns).where(text(IS_RUNNING))).fetchall()
    return {run.id: why for run in running if (why := _why_gone(run, here, now or datetime.now(UTC)))}


def _why_gone(run: Any, here: Here, now: datetime) -> str | None:
    if run.host != here.host or run.pid is None:
        silent = run.heartbeat_at is None or now - run.heartbeat_at > SILENCE
        return f"no sign of life from {run.host} for {SILENCE.seconds // 60} minutes" if silent else None
    if run.boot_id != here.boot_id:
        return "the machine was restarted during the run"
    return None if here.process_start(run.pid) == run.process_start else f"process {run.pid} that ran it is gone"
