"""The newest run of each entry in one session, and the entries that were skipped."""

from __future__ import annotations

from sqlalchemy import Connection, select

from curator_bench.store.tables import RUNS, SESSIONS
from curator_bench.values import Verdict


def latest_of_session(
    connection: Connection, session_uid: str, hunt: str | None
) -> dict[tuple[str, str], tuple[str, str, str | None]]:
    """Uid, verdict and definition hash of the newest runs that are recorded for `hunt`, by path and name."""
    columns = [RUNS.c[name] for name in ("path", "name", "uid", "verdict", "definition_hash")]
    of_session = (
        select(*columns)
        .join(SESSIONS, SESSIONS.c.id == RUNS.c.session)
        .where(SESSIONS.c.uid == session_uid, RUNS.c.hunt.is_not_distinct_from(hunt))
    )
    found = connection.execute(of_session.order_by(RUNS.c.start, RUNS.c.id))
    return {(path, name): (uid, verdict, definition) for path, name, uid, verdict, definition in found}


def ever_skipped(connection: Connection) -> set[tuple[str, str]]:
    """Name and path of the entries that have been skipped."""
    found = connection.execute(select(RUNS.c.name, RUNS.c.path).where(RUNS.c.verdict == Verdict.SKIPPED).distinct())
    return {(name, path) for name, path in found}
