"""Delete runs that started before a given day, and sessions left empty.

Runs under way stay, and so do runs and sessions that another table refers to without being part of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, exists, func, select

from curator_bench.store.backgrounds import forget_unused
from curator_bench.store.database import Database, reason_of
from curator_bench.store.running import IS_RUNNING, RUNNING
from curator_bench.store.tables import INVOCATIONS, RUNS, SESSIONS

Progress = Callable[[int, int], None]
"""Called from time to time with the number of runs deleted and the total."""

AT_ONCE = 500
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Prunable:
    """Runs and entries that `prune` would remove, with the start of the oldest run."""

    runs: int
    hunted: int
    """The number of these runs that are not history."""
    entries: int
    oldest: datetime | None


@dataclass(frozen=True, slots=True)
class Pruned:
    runs: int
    sessions: int


def prunable(database: Database, before: datetime) -> Prunable:
    """Count what `prune` would remove."""
    with database.reading() as connection:
        entries = select(RUNS.c.name, RUNS.c.path).where(_is_old(before)).distinct().subquery()
        columns = (func.count(), func.count(RUNS.c.hunt), func.min(RUNS.c.start))
        runs, hunted, oldest = connection.execute(select(*columns).where(_is_old(before))).one()
        return Prunable(runs, hunted, connection.scalar(select(func.count()).select_from(entries)) or 0, oldest)


def prune(database: Database, before: datetime, progress: Progress = lambda done, total: None) -> Pruned:
    """Remove runs that started before `before`, a few per transaction, so that recorders wait only briefly."""
    with database.reading() as connection:
        runs = connection.scalars(select(RUNS.c.id).where(_is_old(before)).order_by(RUNS.c.id)).all()
    gone = 0
    for first in range(0, len(runs), AT_ONCE):
        with database.writing(_PATIENCE_S) as connection:
            gone += _forget(connection, runs[first : first + AT_ONCE], before)
        progress(min(first + AT_ONCE, len(runs)), len(runs))
    with database.writing(_PATIENCE_S) as connection:
        sessions = _forget_empty(connection, before)
        forget_unused(connection)
        return Pruned(gone, sessions)


def compact(database: Database) -> str | None:
    """Return freed space to the file system; return the reason if that is not possible.

    No-op on a server, which does so by itself.
    """
    if database.engine.dialect.name != "sqlite":
        return None
    with closing(database.engine.raw_connection()) as connection:
        driver: Any = connection.driver_connection
        if driver.execute(f"SELECT 1 FROM {RUNS.name} WHERE {IS_RUNNING} LIMIT 1").fetchone():
            return "runs are under way, which would have to wait for it"
        try:
            driver.execute("VACUUM")
            driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            return reason_of(error)
    return None


def _forget(connection: Connection, runs: Sequence[int], before: datetime) -> int:
    """Delete these runs; return how many. Their metrics and other parts are deleted with them."""
    return connection.execute(delete(RUNS).where(RUNS.c.id.in_(runs), _is_old(before))).rowcount


def _forget_empty(connection: Connection, before: datetime) -> int:
    """Delete old invocations without runs, then sessions without invocations; return the number of sessions.

    A session with a recent invocation stays: it may just have begun.
    """
    unused = ~exists().where(RUNS.c.invocation == INVOCATIONS.c.id)
    connection.execute(delete(INVOCATIONS).where(INVOCATIONS.c.start < before, unused, *_on_record(INVOCATIONS)))
    empty = ~exists().where(INVOCATIONS.c.session == SESSIONS.c.id)
    return connection.execute(delete(SESSIONS).where(empty, *_on_record(SESSIONS))).rowcount


def _is_old(before: datetime) -> ColumnElement[bool]:
    return and_(RUNS.c.start < before, RUNS.c.verdict != RUNNING, *_on_record(RUNS))


def _on_record(table: Table) -> list[ColumnElement[bool]]:
    """Conditions that no row of another table refers to the row. Tables whose rows are deleted with it do not count."""
    return [
        ~exists().where(key.parent == key.column)
        for other in table.metadata.sorted_tables
        for column in other.columns
        for key in column.foreign_keys
        if key.column.table is table and key.ondelete is None
    ]
