"""The order of commits, as far as recorded facts tell it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import Connection, func, select

from curator_bench.store.run_order import commit_places, in_order
from curator_bench.store.tables import IS_NO_HUNT, RUNS, SESSIONS


def commit_order(connection: Connection, commits: Collection[str | None]) -> Mapping[str, float]:
    """Return the place of each commit: the time of the first run that measured it, in seconds since 1970.

    The first run of a session is the one recorded first, which its index tells.
    """
    of_commits = SESSIONS.c.commit.in_([commit for commit in commits if commit])
    sessions = select(SESSIONS.c.id).where(of_commits).scalar_subquery()
    firsts = select(func.min(RUNS.c.id)).where(RUNS.c.session.in_(sessions)).group_by(RUNS.c.session).scalar_subquery()
    statement = (
        select(SESSIONS.c.commit, RUNS.c.session, RUNS.c.start)
        .join(RUNS, RUNS.c.session == SESSIONS.c.id)
        .where(RUNS.c.id.in_(firsts), IS_NO_HUNT)
        .order_by(RUNS.c.start)
    )
    found = connection.execute(statement).fetchall()
    places: dict[str, float] = {}
    starts = [row.start.timestamp() for row in found]
    for time, row in in_order(found, starts, commit_places(connection, of_commits), lambda _: None):
        places.setdefault(row.commit, time)
    return places
