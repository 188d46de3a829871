"""Queries: the recorded sessions, how their entries ended, and what they were measured with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, case, exists, func, not_, or_, select, true

from curator_bench.errors import BenchError
from curator_bench.store.queries import NOBODY, NotRecorded, nearest
from curator_bench.store.records import InvocationRecord
from curator_bench.store.tables import INVOCATIONS, IS_NO_HUNT, RUNS, SESSIONS, SUBJECTS
from curator_bench.values import Subject, Verdict

_SHORTEST_UID = 6


@dataclass(frozen=True, slots=True)
class PastSession:
    """A session with the number of its runs by verdict."""

    id: int
    uid: str
    name: str
    results_directory: str
    start: datetime | None
    reason: str | None
    commit: str | None
    dirty: bool | None
    branch: str | None
    viewer_url: str | None
    sink_urls: Mapping[str, str] | None = None
    """Links to the session in sinks, by name of the sink."""
    hunt: str | None = None
    """Purpose of its runs, as in `values.Hunt`; None if a run of it is history."""
    verdicts: Mapping[str, int] = field(default_factory=dict)
    """The number of entries by verdict: that of the last run of each."""
    runs: int = 0
    """The number of all runs. An entry that ran again has several."""


def sessions(
    connection: Connection,
    last: int,
    *,
    hunts: bool = False,
    gone: Mapping[int, str] = NOBODY,
    among: ColumnElement[bool] | None = None,
) -> list[PastSession]:
    """Read the newest sessions, oldest first; with `hunts`, those without a run that is history.

    `gone` are running runs whose process is gone (`dead_runs.gone_runs`), which count as interrupted. With `among`,
    only runs that meet it count, and sessions that have one.
    """
    chosen = _sessions().where(not_(HAS_HISTORY) if hunts else HAS_HISTORY)
    if among is not None:
        chosen = chosen.where(SESSIONS.c.id.in_(select(RUNS.c.session).where(among)))
    found = connection.execute(chosen.order_by(_STARTED.desc(), SESSIONS.c.id.desc()).limit(last)).fetchall()
    return _with_verdicts(connection, found[::-1], gone, among)


def count_hunts(connection: Connection) -> int:
    """Count the sessions without a run that is history."""
    return connection.scalar(select(func.count()).select_from(SESSIONS).where(not_(HAS_HISTORY))) or 0


def find_sessions(connection: Connection, named: str | None, gone: Mapping[int, str] = NOBODY) -> list[PastSession]:
    """Find sessions by name, uid or commit, newest last; without a name, the newest session.

    Raises NotRecorded with the nearest names if there is none.
    """
    if named is None:
        found = sessions(connection, 1, gone=gone)
        if not found:
            raise BenchError("no sessions are recorded; `pytest --benchmark` records one")
        return found
    columns = SESSIONS.c.uid, SESSIONS.c.commit
    meant = [SESSIONS.c.name == named, or_(*(column == named for column in columns))]
    if len(named) >= _SHORTEST_UID:
        meant.append(or_(*(column.startswith(named, autoescape=True) for column in columns)))
    rows: Sequence[Row[Any]] = ()
    for condition in meant:
        rows = rows or connection.execute(_sessions().where(condition).order_by(_STARTED, SESSIONS.c.id)).fetchall()
    if not rows:
        names = connection.scalars(select(SESSIONS.c.name).distinct())
        near = nearest(named, names)
        raise NotRecorded(
            f"no session or commit {named!r} is recorded{near or '; `curator-bench sessions` lists them'}"
        )
    return _with_verdicts(connection, rows, gone)


def measured_commits(connection: Connection) -> set[str]:
    """Return the commits of the sessions that are history."""
    found = connection.scalars(select(SESSIONS.c.commit).where(SESSIONS.c.commit.is_not(None), HAS_HISTORY))
    return {commit for commit in found if commit}


def first_start(connection: Connection, sessions: Collection[int]) -> datetime | None:
    """Return the start of the first run of these sessions."""
    found: datetime | None = connection.scalar(select(func.min(RUNS.c.start)).where(RUNS.c.session.in_(sessions)))
    return found


def subjects_of(connection: Connection, session: PastSession) -> list[Subject]:
    """Read the packages under test of a session."""
    columns = [SUBJECTS.c[field.name] for field in fields(Subject)]
    found = select(*columns).where(SUBJECTS.c.session == session.id).order_by(SUBJECTS.c.package, SUBJECTS.c.id)
    return [Subject(*row) for row in connection.execute(found)]


def invocations_of(connection: Connection, session: PastSession) -> list[InvocationRecord]:
    """Read the invocations of a session, oldest first."""
    columns = [INVOCATIONS.c[field.name] for field in fields(InvocationRecord)]
    found = select(*columns).where(INVOCATIONS.c.session == session.id).order_by(INVOCATIONS.c.start)
    return [InvocationRecord(*row) for row in connection.execute(found)]


HAS_HISTORY = or_(
    exists().where(RUNS.c.session == SESSIONS.c.id, IS_NO_HUNT), ~exists().where(RUNS.c.session == SESSIONS.c.id)
)
"""True of sessions that are part of the history: those with a run of it, and those without runs."""
_STARTED = func.coalesce(
    select(func.min(INVOCATIONS.c.start)).where(INVOCATIONS.c.session == SESSIONS.c.id).scalar_subquery(),
    select(func.min(RUNS.c.start)).where(RUNS.c.session == SESSIONS.c.id).scalar_subquery(),
)


_HUNT = select(func.max(RUNS.c.hunt)).where(RUNS.c.session == SESSIONS.c.id).scalar_subquery()


def _sessions() -> Select[Any]:
    names = ("id", "uid", "name", "results_directory")
    others = ("reason", "commit", "dirty", "branch", "viewer_url", "sink_urls")
    return select(
        *(SESSIONS.c[name] for name in names),
        _STARTED.label("start"),
        *(SESSIONS.c[name] for name in others),
        case((HAS_HISTORY, None), else_=_HUNT).label("hunt"),
    )


def _with_verdicts(
    connection: Connection,
    rows: Sequence[Row[Any]],
    gone: Mapping[int, str],
    among: ColumnElement[bool] | None = None,
) -> list[PastSession]:
    verdicts: dict[int, dict[str, int]] = defaultdict(dict)
    runs: dict[int, int] = defaultdict(int)
    apart = RUNS.c.session.in_([row.id for row in rows if row.hunt])
    entry = RUNS.c.session, RUNS.c.path, RUNS.c.name
    ranked = (
        select(
            RUNS.c.session,
            case((RUNS.c.id.in_(list(gone)), str(Verdict.INTERRUPTED)), else_=RUNS.c.verdict).label("verdict"),
            func.row_number().over(partition_by=entry, order_by=(RUNS.c.start.desc(), RUNS.c.id.desc())).label("place"),
            func.count().over(partition_by=entry).label("runs"),
        )
        .where(RUNS.c.session.in_([row.id for row in rows]), or_(IS_NO_HUNT, apart), true() if among is None else among)
        .subquery()
    )
    last = ranked.c.session, ranked.c.verdict
    counted = select(*last, func.count(), func.sum(ranked.c.runs)).where(ranked.c.place == 1)
    for session, verdict, entries, of_entries in connection.execute(counted.group_by(*last).order_by(*last)):
        verdicts[session][verdict] = entries
        runs[session] += int(of_entries)
    return [PastSession(**row._mapping, verdicts=verdicts[row.id], runs=runs[row.id]) for row in rows]
