"""Queries of `curator-bench serve`: whether the database changed, where results are, and the log of a run."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from curator_bench.store.running import RUNNING
from curator_bench.store.tables import ACCEPTANCES, INVOCATIONS, RUNS, SESSIONS


@dataclass(frozen=True, slots=True)
class LogOfRun:
    """The log of a run: its path, its entry and its session."""

    entry: str
    session: str
    results_directory: str
    path: str | None


def mark_of_changes(connection: Connection) -> tuple[object, ...]:
    """Return a value that differs once a run ends or is removed, and when sessions or acceptances change.

    Heartbeats of runs change nothing that is shown, so they do not count.
    """
    parts = (
        select(func.count(), func.max(RUNS.c.id), func.max(RUNS.c.end)).where(RUNS.c.verdict != RUNNING),
        select(func.count(), func.max(SESSIONS.c.id), func.count(SESSIONS.c.viewer_url)),
        select(func.count(), func.max(INVOCATIONS.c.id), func.max(INVOCATIONS.c.end)),
        select(func.count(), func.max(ACCEPTANCES.c.id)),
    )
    return tuple(value for part in parts for value in connection.execute(part).one())


def results_directories(connection: Connection, last: int) -> list[str]:
    """Return the results directories of the newest sessions."""
    newest = select(SESSIONS.c.results_directory).order_by(SESSIONS.c.id.desc()).limit(last)
    return list(dict.fromkeys(connection.scalars(newest)))


def log_of_run(connection: Connection, uid: str) -> LogOfRun | None:
    """Find the log of a run; None if there is no such run."""
    columns = (RUNS.c.name, SESSIONS.c.name, SESSIONS.c.results_directory, RUNS.c.log_path)
    found = connection.execute(
        select(*columns).join(SESSIONS, SESSIONS.c.id == RUNS.c.session).where(RUNS.c.uid == uid)
    ).first()
    return None if found is None else LogOfRun(*found)
