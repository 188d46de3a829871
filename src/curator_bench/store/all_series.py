"""Every metric of every entry as a series over its comparable runs, for reports over the whole history."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, and_, func, not_, or_, select, type_coerce
from sqlalchemy.types import NullType

from curator_bench.errors import BenchError
from curator_bench.store import bulk
from curator_bench.store.gate_history import MEASURED
from curator_bench.store.queries import EntryKey, OwnCommit, nearest, own_commits
from curator_bench.store.run_order import commit_places, in_order
from curator_bench.store.scope import in_scope
from curator_bench.store.series import SERIES
from curator_bench.store.tables import (
    IS_HISTORY,
    IS_NO_HUNT,
    IS_UNDISTURBED,
    REQUIREMENTS,
    RUNS,
    SESSIONS,
    SUBJECTS,
)
from curator_bench.values import CommitPlace

_GATES = ("max_regression", "max_drift")
Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


Group: TypeAlias = tuple[str, str, str | None]
"""Name and path of an entry, and a machine."""
_Comparable: TypeAlias = tuple[str, str, str | None, str | None]
"""A group and a series: runs with both equal are compared with each other."""


@dataclass(frozen=True, slots=True)
class Series:
    """Values of one metric of an entry on one kind of machine, oldest first; all of one series hash."""

    entry: EntryKey
    machine_id: str | None
    series_hash: str | None
    metric: str
    runs: Integers
    """Ids of the runs in this database."""
    starts: Floats
    """Time of each run in the order of commits (`store.run_order`), in seconds since 1970; ascending."""
    sessions: Integers
    """Session id of each run."""
    values: Floats
    runs_without: int
    """Number of comparable runs after the last one here that did not measure this metric."""
    is_newest: bool = True
    """False if newer runs of the entry on this machine are of another series."""


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Start, session and commit of a run."""

    run: int
    """Id of its row in this database."""
    session: str
    session_id: int
    commit: str | None
    branch: str | None
    start: datetime

    @property
    def start_text(self) -> str:
        return self.start.isoformat()


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs in order; `groups` gives the entry, machine and series of each as an index into `keys`."""

    ids: Integers
    groups: Integers
    starts: Floats
    sessions: Integers
    keys: Sequence[_Comparable]
    names: Mapping[tuple[str, str], str]
    newest: Mapping[Group, str | None]
    """The series of the newest run."""

    def later(self) -> Integers:
        """For each run, count the later runs of its group."""
        by_group = np.argsort(self.groups, kind="stable")
        ends = np.searchsorted(self.groups[by_group], self.groups, side="right")
        places = np.empty_like(by_group)
        places[by_group] = np.arange(len(by_group))
        return ends - 1 - places


def all_series(
    connection: Connection,
    metric: str | None = None,
    branch: str | None = None,
    among: Collection[Group] | None = None,
    *,
    machine: str | None = None,
) -> list[Series]:
    """Read the series of all entries by name, of one metric or of all.

    With a branch or a machine, only its runs count; with `among`, only these groups are read. Raises BenchError if
    nothing is recorded of the branch, the machine or the metric.
    """
    runs = _runs(connection, in_scope(connection, branch, machine), among)
    later, found = runs.later(), []
    for group, name, at, values in by_series(runs.ids, runs.groups, connection, metric, is_part=among is not None):
        entry_name, path, kind, series = runs.keys[group]
        entry = EntryKey(entry_name, path, runs.names[entry_name, path])
        of_runs = runs.ids[at], runs.starts[at], runs.sessions[at]
        is_newest = runs.newest[entry_name, path, kind] == series
        found.append(Series(entry, kind, series, name, *of_runs, values, int(later[at[-1]]), is_newest))
    return found


def by_series(
    ids: Integers, groups: Integers, connection: Connection, metric: str | None = None, *, is_part: bool = False
) -> Iterator[tuple[int, str, Integers, Floats]]:
    """Yield what these runs measured: group, metric, positions among the runs, and values.

    Runs that are a small part of all are read one by one. Raises BenchError if no run measured the metric.
    """
    where, codes, values, metrics = _figures(connection, ids.tolist() if is_part else None)
    if metric is not None and metric not in metrics:
        raise BenchError(f"no run has measured {metric!r}{nearest(metric, metrics)}")
    order = np.argsort(ids)
    place = np.searchsorted(ids, where, sorter=order)
    place = order[np.minimum(place, len(order) - 1)] if len(order) else np.zeros(len(where), dtype=np.int64)
    known = ids[place] == where if len(order) else np.zeros(len(where), dtype=bool)
    if metric is not None:
        known &= codes == metrics[metric]
    place, codes, values = place[known], codes[known], values[known]
    of_place = groups[place]
    sorted_by = np.lexsort((place, codes, of_place))
    place, codes, values, of_place = (column[sorted_by] for column in (place, codes, values, of_place))
    ends = np.flatnonzero((np.diff(of_place) != 0) | (np.diff(codes) != 0)) + 1
    names = list(metrics)
    for start, end in pairwise([0, *ends.tolist(), len(values)]):
        if end > start:
            yield int(of_place[start]), names[codes[start]], place[start:end], values[start:end]


def groups_of(connection: Connection, entries: Collection[EntryKey]) -> set[Group]:
    """Return these entries on each kind of machine that ran them."""
    columns = RUNS.c.name, RUNS.c.path, RUNS.c.machine_id
    named = select(*columns).where(RUNS.c.name.in_({entry.name for entry in entries}), IS_NO_HUNT).distinct()
    wanted = {(entry.name, entry.path) for entry in entries}
    return {(row.name, row.path, row.machine_id) for row in connection.execute(named) if (row.name, row.path) in wanted}


def disturbed_runs(
    connection: Connection, branch: str | None = None, *, machine: str | None = None
) -> dict[Group, int]:
    """Count the runs that would be history if nothing had disturbed them; arguments as of `all_series`."""
    group = RUNS.c.name, RUNS.c.path, RUNS.c.machine_id
    counted = select(*group, func.count()).group_by(*group).order_by(*group)
    counted = counted.where(IS_NO_HUNT, not_(IS_UNDISTURBED), RUNS.c.verdict.in_(MEASURED))
    counted = counted.where(in_scope(connection, branch, machine))
    return {(name, path, kind): count for name, path, kind, count in connection.execute(counted)}


def of_groups(groups: Collection[Group]) -> ColumnElement[bool]:
    """Return the condition on runs that all runs of these groups meet; some of other groups meet it too."""
    names, paths, machines = (set(column) for column in zip(*groups, strict=True)) if groups else (set(), set(), set())
    named = RUNS.c.machine_id.in_(machines - {None})
    machine = or_(named, RUNS.c.machine_id.is_(None)) if None in machines else named
    return and_(RUNS.c.name.in_(names), RUNS.c.path.in_(paths), machine)


def _runs(connection: Connection, where: ColumnElement[bool], among: Collection[Group] | None) -> _Runs:
    names = ("id", "session", "name", "path", "machine_id", "originalname")
    columns = (*(RUNS.c[name] for name in names), SERIES, as_stored(RUNS.c.start).label("start"))
    statement = select(*columns).where(RUNS.c.verdict.in_(MEASURED), IS_HISTORY, where)
    statement = statement.order_by(RUNS.c.start, RUNS.c.id)
    if among is not None:
        statement = statement.where(of_groups(among))
    read = _Read()
    for rows in connection.execute(statement.execution_options(yield_per=bulk.PARTS_AT_ONCE)).partitions():
        if kept := rows if among is None else [row for row in rows if (row.name, row.path, row.machine_id) in among]:
            read.add(kept)
    return read.in_order(commit_places(connection))


class _Placed(NamedTuple):
    """A run for `in_order`: its place among those that were read, its session, and its group."""

    at: int
    session: int
    group: int


class _Read:
    """Runs as they are read: by columns, as an object for each of a million runs would take long."""

    def __init__(self) -> None:
        self._keys: dict[_Comparable, int] = {}
        self._originals: dict[int, str] = {}
        self._columns: list[tuple[Integers, Integers, Floats, Integers]] = []

    def add(self, rows: Sequence[Any]) -> None:
        """Add runs in the order they began: id, session, name, path, machine, name without axes, series, start."""
        ids, sessions, names, paths, machines, originals, series, starts = zip(*rows, strict=True)
        keys = zip(names, paths, machines, series, strict=True)
        groups = [self._keys.setdefault(key, len(self._keys)) for key in keys]
        self._originals.update(zip(groups, originals, strict=True))
        numbers = (np.array(column, dtype=np.int64) for column in (ids, groups, sessions))
        of_runs, of_groups, of_sessions = numbers
        self._columns.append((of_runs, of_groups, seconds(starts), of_sessions))

    def in_order(self, places: Mapping[int, CommitPlace]) -> _Runs:
        """Return the runs in the order of their commits."""
        none = np.zeros(0, dtype=np.int64)
        columns = self._columns or [(none, none, np.zeros(0), none)]
        ids, groups, starts, sessions = (np.concatenate(column) for column in zip(*columns, strict=True))
        keys = list(self._keys)
        if places:
            rows = map(_Placed._make, zip(range(len(ids)), sessions.tolist(), groups.tolist(), strict=True))
            timed = in_order(rows, starts.tolist(), places, lambda row: keys[row.group][:3])
            order = np.array([row.at for _, row in timed], dtype=np.int64)
            ids, groups, sessions = ids[order], groups[order], sessions[order]
            starts = np.array([time for time, _ in timed], dtype=np.float64)
        last = dict(zip(groups.tolist(), range(len(groups)), strict=True))
        oldest_first = [(keys[group], self._originals[group]) for group in sorted(last, key=lambda one: last[one])]
        names = {(name, path): original for (name, path, _, _), original in oldest_first}
        newest = {(name, path, machine): series for (name, path, machine, series), _ in oldest_first}
        return _Runs(ids, groups, starts, sessions, keys, names, newest)


def as_stored(moments: ColumnElement[datetime]) -> ColumnElement[Any]:
    """A column of moments as the driver returns them. To make an object of each takes long for many rows."""
    return type_coerce(moments, NullType())


def seconds(stored: Sequence[Any]) -> Floats:
    """Convert moments as the driver returns them to seconds since 1970: texts of SQLite, objects of PostgreSQL."""
    if stored and isinstance(stored[0], datetime):
        return np.array([moment.timestamp() for moment in stored], dtype=np.float64)
    return np.array(stored, dtype="datetime64[us]").astype(np.int64) / 1e6


def _figures(
    connection: Connection, of_runs: Sequence[int] | None
) -> tuple[Integers, Integers, Floats, dict[str, int]]:
    """Run ids, metric codes and values of all numeric metrics, and the code of each metric name."""
    metrics = _Codes()
    lists = list(_as_arrays(bulk.figures(connection, of_runs), metrics))
    if not lists:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0), metrics
    runs, codes, values = (np.concatenate(column) for column in zip(*lists, strict=True))
    return runs, codes, values, metrics


class _Codes(dict[str, int]):
    """Gives each name that is looked up the next number. A million of them pass through no code but this."""

    def __missing__(self, name: str) -> int:
        self[name] = len(self)
        return self[name]


def _as_arrays(
    lists: Iterator[list[tuple[int, str, float]]], metrics: _Codes
) -> Iterator[tuple[Integers, Integers, Floats]]:
    for rows in lists:
        runs, names, values = zip(*rows, strict=True)
        codes = np.fromiter(map(metrics.__getitem__, names), np.int64, len(names))
        yield np.array(runs, dtype=np.int64), codes, np.array(values, dtype=np.float64)


def declared_directions(connection: Connection, also: Collection[int] = ()) -> dict[tuple[str, str, str], str]:
    """The newest declared `better` of the history and the sessions `also`, by name, path and metric."""
    statement = (
        select(RUNS.c.name, RUNS.c.path, REQUIREMENTS.c.metric, REQUIREMENTS.c.better)
        .join(RUNS, RUNS.c.id == REQUIREMENTS.c.run)
        .where(REQUIREMENTS.c.better.is_not(None), history_and(also))
        .order_by(RUNS.c.start)
    )
    return {(name, path, metric): better for name, path, metric, better in connection.execute(statement)}


def gate_limits(connection: Connection) -> dict[tuple[str, str, str], float]:
    """The newest `max_regression` limit, by name, path and metric."""
    statement = (
        select(RUNS.c.name, RUNS.c.path, REQUIREMENTS.c.metric, REQUIREMENTS.c.limit)
        .join(RUNS, RUNS.c.id == REQUIREMENTS.c.run)
        .where(REQUIREMENTS.c.bound == "max_regression", REQUIREMENTS.c.limit.is_not(None), IS_NO_HUNT)
        .order_by(RUNS.c.start)
    )
    return {(name, path, metric): float(limit) for name, path, metric, limit in connection.execute(statement)}


def required_metrics(connection: Connection, also: Collection[int] = ()) -> dict[tuple[str, str], list[str]]:
    """Required metrics of each entry's newest run, in the order of its requirements, by name and path.

    The runs are those of the history and of the sessions `also`.
    """
    statement = (
        select(RUNS.c.id, RUNS.c.name, RUNS.c.path, REQUIREMENTS.c.metric)
        .join(RUNS, RUNS.c.id == REQUIREMENTS.c.run)
        .where(history_and(also))
        .order_by(RUNS.c.start, RUNS.c.id, REQUIREMENTS.c.position)
    )
    found: dict[tuple[str, str], tuple[int, list[str]]] = {}
    for run, name, path, metric in connection.execute(statement):
        newest = found.get((name, path))
        if newest is None or newest[0] != run:
            newest = found[name, path] = (run, [])
        newest[1].append(metric)
    return {key: list(dict.fromkeys(metrics)) for key, (_, metrics) in found.items()}


def history_and(sessions: Collection[int]) -> ColumnElement[bool]:
    """Condition of the runs that are history, and of all runs of these sessions."""
    return or_(IS_HISTORY, RUNS.c.session.in_(sessions)) if sessions else IS_HISTORY


def commits_of(connection: Connection) -> dict[int, str]:
    """The commit of each session that has one."""
    statement = select(SESSIONS.c.id, SESSIONS.c.commit).where(SESSIONS.c.commit.is_not(None))
    return {row.id: row.commit for row in connection.execute(statement)}


def places_of(connection: Connection, runs: Collection[int]) -> dict[int, RunPlace]:
    """Place of each of these runs, by run id. Meant for a few runs."""
    columns = (SESSIONS.c.name, RUNS.c.session, SESSIONS.c.commit, SESSIONS.c.branch, RUNS.c.start, RUNS.c.invocation)
    statement = select(RUNS.c.id, *columns).join(SESSIONS, SESSIONS.c.id == RUNS.c.session)
    found = connection.execute(statement.where(RUNS.c.id.in_(runs))).fetchall()
    own = own_commits(connection, {row.session for row in found})
    return {row.id: _place(row, own.get(row.invocation)) for row in found}


def _place(row: Any, own: OwnCommit | None) -> RunPlace:
    """Return the place of a run. A session may have been joined at another commit."""
    commit, branch = own or (row.commit, row.branch)
    return RunPlace(row.id, row.name, row.session, commit, branch, row.start)


def subject_commits(connection: Connection, sessions: Collection[int]) -> dict[int, dict[str, str]]:
    """Packages under test by session, each with the newest commit recorded, or the version if there is no commit."""
    statement = select(SUBJECTS).where(SUBJECTS.c.session.in_(sessions)).order_by(SUBJECTS.c.id)
    found: dict[int, dict[str, str]] = {}
    for row in connection.execute(statement):
        if said := row.commit or row.version:
            found.setdefault(row.session, {})[row.package] = said
    return found
