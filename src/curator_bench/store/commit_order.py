"""The order of commits, as far as recorded facts tell it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import Connection, func, select

from curator_bench.store.run_order import commit_places, in_order
from curator_bench.store.tables import IS_HISTORY, RUNS, SESSIONS


def commit_order(connection: Connection, commits: Collection[str | None]) -> Mapping[str, float]:
    """Return the place of each commit: the time of the first run that measured it, in seconds since 1970."""
    first = func.min(RUNS.c.start).label("start")
    of_commits = SESSIONS.c.commit.in_([commit for commit in commits if commit])
    statement = (
        select(SESSIONS.c.commit, RUNS.c.session, first)
        .join(RUNS, RUNS.c.session == SESSIONS.c.id)
        .where(of_commits, IS_HISTORY)
        .group_by(SESSIONS.c.commit, RUNS.c.session)
        .order_by(first)
    )
    found = connection.execute(statement).fetchall()
    places: dict[str, float] = {}
    starts = [row.start.timestamp() for row in found]
    for time, row in in_order(found, starts, commit_places(connection, of_commits), lambda _: None):
        places.setdefault(row.commit, time)
    return places
