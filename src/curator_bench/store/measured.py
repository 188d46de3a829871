"""Values of chosen sessions by entry, metric and kind of run, for comparing any two sets of sessions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, and_, func, not_, or_, select, true

from curator_bench.errors import BenchError
from curator_bench.store.all_series import (
    Floats,
    Group,
    Integers,
    as_stored,
    by_series,
    history_and,
    of_groups,
    seconds,
)
from curator_bench.store.gate_history import MEASURED
from curator_bench.store.past_sessions import HAS_HISTORY
from curator_bench.store.queries import NotRecorded, nearest
from curator_bench.store.run_order import commit_places, in_order, sessions_of_branch
from curator_bench.store.series import SERIES
from curator_bench.store.tables import IS_HISTORY, IS_NO_HUNT, IS_UNDISTURBED, RUNS, SESSIONS

Bools: TypeAlias = NDArray[np.bool_]
_SHORTEST = 6
"""Shortest prefix of a uid or a commit that is accepted."""


class Kind(NamedTuple):
    """Machine and series. Only runs of the same kind are compared."""

    machine_id: str | None
    series_hash: str | None


class Measure(NamedTuple):
    """One metric of one entry."""

    name: str
    path: str
    metric: str


class Values(NamedTuple):
    """Values of runs of one kind and their session ids, oldest first."""

    sessions: Integers
    values: Floats


Measured: TypeAlias = dict[Measure, dict[Kind, Values]]


def sessions_meant(connection: Connection, named: str) -> list[int]:
    """Find the sessions with this name, branch, uid or commit. Raises BenchError if there is none.

    A branch or a commit means its history; a name or a uid also means a session of a bisect or an A/B comparison.
    """
    of_commit = _is_or_begins(SESSIONS.c.commit, named)
    meant = (
        SESSIONS.c.name == named,
        and_(SESSIONS.c.id.in_(sessions_of_branch(connection, named)), HAS_HISTORY),
        or_(_is_or_begins(SESSIONS.c.uid, named), and_(of_commit, HAS_HISTORY)),
    )
    for condition in meant:
        if found := _ids(connection, condition):
            return found
    if _ids(connection, or_(SESSIONS.c.branch == named, of_commit)):
        listed = "`curator-bench sessions --hunts` lists them, and each can be compared by its name"
        raise BenchError(f"{named} has no history, only sessions of bisects or A/B comparisons; {listed}")
    known = connection.execute(select(SESSIONS.c.name, SESSIONS.c.branch).distinct())
    names = {name for row in known for name in row if name}
    near = nearest(named, names) or "; `curator-bench sessions` lists them"
    raise NotRecorded(f"no session, branch or commit {named!r} is recorded{near}")


def disturbed_in(connection: Connection, sessions: Collection[int]) -> int:
    """Count the runs of these sessions that are no history because something disturbed them."""
    counted = select(func.count()).select_from(RUNS).where(RUNS.c.session.in_(sessions), RUNS.c.verdict.in_(MEASURED))
    return connection.scalar(counted.where(IS_NO_HUNT, not_(IS_UNDISTURBED))) or 0


def without_history(connection: Connection, sessions: Collection[int]) -> list[int]:
    """Of these sessions, those without a run that is history."""
    return _ids(connection, and_(SESSIONS.c.id.in_(sessions), not_(HAS_HISTORY)))


def _ids(connection: Connection, condition: ColumnElement[bool]) -> list[int]:
    return list(connection.scalars(select(SESSIONS.c.id).where(condition).order_by(SESSIONS.c.id)))


def _is_or_begins(column: ColumnElement[str | None], named: str) -> ColumnElement[bool]:
    return column.startswith(named, autoescape=True) if len(named) >= _SHORTEST else column == named


def measured(
    connection: Connection,
    metric: str | None = None,
    also: Collection[int] = (),
    among: ColumnElement[bool] | None = None,
) -> Measured:
    """Read all values of one metric or of every metric, from the history and from the sessions `also`.

    With `among`, only those of runs that meet it. Raises BenchError if no run measured the metric.
    """
    return _measured(connection, metric, and_(history_and(also), true() if among is None else among))


def measured_around(connection: Connection, sessions: Collection[int]) -> Measured:
    """Read what these sessions measured, and the whole history of entries on machines that they have in common."""
    columns = (RUNS.c.session, RUNS.c.name, RUNS.c.path, RUNS.c.machine_id)
    of: dict[Group, set[int]] = defaultdict(set)
    for session, *group in connection.execute(select(*columns).where(RUNS.c.session.in_(sessions)).distinct()):
        of[(group[0], group[1], group[2])].add(session)
    shared = [group for group, found in of.items() if len(found) > 1]
    where = or_(RUNS.c.session.in_(sessions), of_groups(shared)) if shared else RUNS.c.session.in_(sessions)
    return _measured(connection, None, and_(IS_HISTORY, where), is_part=True)


def _measured(
    connection: Connection, metric: str | None, where: ColumnElement[bool], *, is_part: bool = False
) -> Measured:
    names = ("id", "session", "name", "path", "machine_id")
    columns = [*(RUNS.c[name] for name in names), as_stored(RUNS.c.start).label("start"), SERIES]
    statement = select(*columns).where(RUNS.c.verdict.in_(MEASURED), where)
    found_runs = connection.execute(statement.order_by(RUNS.c.start, RUNS.c.id)).fetchall()
    begun = seconds([row.start for row in found_runs]).tolist()
    timed = in_order(found_runs, begun, commit_places(connection), lambda row: (row.name, row.path, row.machine_id))
    runs = [row for _, row in timed]
    keys: dict[tuple[str, str, Kind], int] = {}
    of_runs = [(row.name, row.path, Kind(row.machine_id, row.series_hash)) for row in runs]
    numbers = [(row.id, row.session, keys.setdefault(key, len(keys))) for row, key in zip(runs, of_runs, strict=True)]
    ids, sessions, groups = np.array(numbers, dtype=np.int64).reshape(-1, 3).T
    kinds, found = list(keys), defaultdict[Measure, dict[Kind, Values]](dict)
    for group, name, at, values in by_series(ids, groups, connection, metric, is_part=is_part):
        entry, path, kind = kinds[group]
        found[Measure(entry, path, name)][kind] = Values(sessions[at], values)
    return found


def only(everything: Measured, sessions: Collection[int]) -> Measured:
    """Keep only the values of these sessions."""
    found: Measured = defaultdict(dict)
    for measure, kinds in everything.items():
        for kind, (of, values) in kinds.items():
            kept = _are_of(of, sessions)
            if kept.any():
                found[measure][kind] = Values(of[kept], values[kept])
    return found


def _are_of(of_runs: Integers, sessions: Collection[int]) -> Bools:
    """Return for each run whether it is of these sessions. `np.isin` takes ten times as long for one session."""
    if len(sessions) == 1:
        is_of: Bools = of_runs == next(iter(sessions))
        return is_of
    return np.isin(of_runs, list(sessions))


def of_other_sessions(everything: Measured, sessions: Collection[int], others: Collection[int]) -> Measured:
    """Keep the values of other sessions, without any that is newer than all of `sessions` and `others`."""
    found: Measured = defaultdict(dict)
    for measure, kinds in everything.items():
        for kind, (of, values) in kinds.items():
            own = _are_of(of, sessions)
            either = np.flatnonzero(own | _are_of(of, others))
            newest = int(either[-1]) if len(either) else len(of)
            kept = ~own & (np.arange(len(of)) <= newest)
            if kept.any():
                found[measure][kind] = Values(of[kept], values[kept])
    return found


def runs_in(connection: Connection, sessions: Mapping[Group, int], *, newest: bool) -> dict[Group, int]:
    """Read the id of the newest or the oldest run that counts of each entry and machine in its session."""
    columns = (RUNS.c.id, RUNS.c.name, RUNS.c.path, RUNS.c.machine_id, RUNS.c.session)
    statement = select(*columns).where(RUNS.c.session.in_(set(sessions.values())), RUNS.c.verdict.in_(MEASURED))
    order = (RUNS.c.start, RUNS.c.id) if newest else (RUNS.c.start.desc(), RUNS.c.id.desc())
    found = connection.execute(statement.order_by(*order))
    return {
        (name, path, machine): run
        for run, name, path, machine, session in found
        if sessions.get((name, path, machine)) == session
    }
