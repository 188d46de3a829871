"""The order of commits, as far as recorded facts tell it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import Connection, func, select

from curator_bench.store.tables import IS_HISTORY, RUNS, SESSIONS


def commit_order(connection: Connection, commits: Collection[str | None]) -> Mapping[str, float]:
    """Return the place of each commit: the start of the first run that measured it, in seconds since 1970."""
    statement = (
        select(SESSIONS.c.commit, func.min(RUNS.c.start))
        .join(RUNS, RUNS.c.session == SESSIONS.c.id)
        .where(SESSIONS.c.commit.in_([commit for commit in commits if commit]), IS_HISTORY)
        .group_by(SESSIONS.c.commit)
    )
    return {commit: first.timestamp() for commit, first in connection.execute(statement)}
