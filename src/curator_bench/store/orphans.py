"""Runs whose process is gone: they are marked interrupted when the database is next opened for writing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, select, text, update

from curator_bench.store.running import IS_RUNNING, RUNS
from curator_bench.values import Verdict

if TYPE_CHECKING:
    from curator_bench.store.database import Database

SILENCE = timedelta(minutes=5)
"""How old the last sign of life from elsewhere may be."""
_ANY = text(f"SELECT 1 FROM {RUNS} WHERE {IS_RUNNING} LIMIT 1")


@dataclass(frozen=True, slots=True)
class Here:
    """Where this process is, and how it looks up others: what was written when a run started, by the same means.

    `process_start` answers when the process of that number started; None where there is none.
    """

    host: str
    boot_id: str
    process_start: Callable[[int], float | None]


def mark_interrupted(database: Database, here: Here, now: datetime | None = None) -> int:
    """How many runs were. A run that was taken for gone and is not is put right when it ends."""
    with database.reading() as connection:
        if connection.execute(_ANY).first() is None:
            return 0
    return _mark(database, here, now or datetime.now(UTC))


def _mark(database: Database, here: Here, now: datetime) -> int:
    from curator_bench.store.schema import TestRun

    columns = (TestRun.id, TestRun.host, TestRun.boot_id, TestRun.pid, TestRun.process_start, TestRun.heartbeat_at)
    marking = (
        update(TestRun)
        .where(TestRun.id == bindparam("the_id"), text(IS_RUNNING))
        .values(verdict=str(Verdict.INTERRUPTED), end=TestRun.heartbeat_at, error=bindparam("why"))
    )
    with database.writing() as connection:
        running = connection.execute(select(*columns).where(text(IS_RUNNING))).fetchall()
        gone = [{"the_id": run.id, "why": why} for run in running if (why := _why_gone(run, here, now))]
        if gone:
            connection.execute(marking, gone)
    return len(gone)


def _why_gone(run: Any, here: Here, now: datetime) -> str | None:
    if run.host != here.host or run.pid is None:
        silent = run.heartbeat_at is None or now - run.heartbeat_at > SILENCE
        return f"no sign of life from {run.host} for {SILENCE.seconds // 60} minutes" if silent else None
    if run.boot_id != here.boot_id:
        return "the machine was started anew while it ran"
    return None if here.process_start(run.pid) == run.process_start else f"process {run.pid} that ran it is gone"
