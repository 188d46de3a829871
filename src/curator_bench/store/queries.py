"""Queries: the recorded entries, their values, and the runs of a session. `past_sessions` has those of sessions."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, not_, or_, select, true, tuple_

from curator_bench.errors import BenchError
from curator_bench.store import bulk
from curator_bench.store.run_order import commit_places, earlier, in_order
from curator_bench.store.scalars import scalar_of
from curator_bench.store.series import CONTENT, SERIES
from curator_bench.store.tables import INVOCATIONS, IS_NO_HUNT, METRICS, REQUIREMENTS, RUNS, SESSIONS
from curator_bench.values import CommitPlace, Scalar, Verdict

_NAMES_SHOWN = 3
_SHORTEST_PART = 3
"""Shorter words are in too many names to suggest those."""
_AT_ONCE = 500
MISSED_COLUMNS = ("metric", "bound", "limit", "actual", "met", "note")
NOBODY: Mapping[int, str] = {}
_MEASURED_TIME = "exec_time_s"


class NotRecorded(BenchError):
    """The database has no record of this name."""


@dataclass(frozen=True, slots=True, order=True)
class EntryKey:
    """Key of a history: the entry's id (or the name of a Python benchmark) and its file."""

    name: str
    path: str
    originalname: str = field(compare=False, default="")


@dataclass(frozen=True, slots=True)
class KnownEntry:
    """A recorded entry with its number of runs."""

    key: EntryKey
    runs: int


@dataclass(frozen=True, slots=True)
class PastRun:
    """A recorded run, for reports on the past."""

    uid: str
    entry: EntryKey
    session: str
    session_uid: str
    verdict: str
    attempt: int
    start: datetime
    end: datetime | None
    duration: float | None
    error: str | None
    log_path: str | None
    host: str | None
    machine_id: str | None
    definition_hash: str | None
    series_hash: str | None
    """Runs of an entry with equal ones, on one kind of machine, are one history (`store.series`)."""
    content_hash: str | None
    """If it differs from that of the run before, the definition changed."""
    commit: str | None
    branch: str | None
    commit_depth: int | None = None
    """Number of commits up to its commit by first parents, as far as known."""
    committed_at: datetime | None = None
    """Time of its commit, as far as known. Without a depth, its session was joined at another commit as well."""
    hunt: str | None = None
    """Purpose of the run, as in `values.Hunt`; None if it is history."""
    disturbed: str | None = None
    """Reason why the run is disturbed, and no history; empty if nothing disturbed it, None if that is not known."""
    metrics: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def measured_s(self) -> float | None:
        """Duration of the script without cluster and warm-up; the whole run's duration if that was not measured."""
        measured = self.metrics.get(_MEASURED_TIME)
        return float(measured) if isinstance(measured, int | float) else self.duration


@dataclass(frozen=True, slots=True)
class PastValue:
    """One run's value, with what decides which runs it is compared with."""

    value: Scalar
    start: datetime
    """Its time in the order of commits (`store.run_order`)."""
    verdict: str
    series_hash: str | None
    run_uid: str
    run_id: int
    session: str
    session_uid: str
    commit: str | None
    branches: tuple[str, ...]
    """The branch of its checkout; of a detached one, all that contained its commit."""


@dataclass(frozen=True, slots=True)
class MissedRequirement:
    """A requirement a run did not meet, or an inconclusive gate."""

    run_uid: str
    metric: str
    bound: str
    limit: str | None
    actual: str | None
    met: bool | None = False
    """None if the gate is inconclusive; `note` then says what would decide it."""
    note: str | None = None

    @property
    def is_inconclusive(self) -> bool:
        return self.met is None


_RUN_COLUMNS = (
    RUNS.c.id,
    *(RUNS.c[name] for name in ("uid", "name", "path", "originalname", "verdict", "attempt", "start", "end")),
    *(RUNS.c[name] for name in ("duration", "error", "log_path", "host", "machine_id", "definition_hash", "hunt")),
    RUNS.c.disturbed,
    SERIES,
    CONTENT,
    SESSIONS.c.name.label("session_name"),
    SESSIONS.c.uid.label("session_uid"),
    SESSIONS.c.commit,
    SESSIONS.c.branch,
    SESSIONS.c.commit_depth,
    RUNS.c.session,
    RUNS.c.invocation,
    SESSIONS.c.committed_at,
)


def runs_in_order(
    connection: Connection, where: ColumnElement[bool], new: CommitPlace | None = None
) -> list[tuple[float, Row[Any]]]:
    """Read which runs of an entry meet the condition, in order (`store.run_order`), each with its time.

    With `new`, only those that stand before a run of that commit which begins now.
    """
    columns = [RUNS.c[name] for name in ("id", "start", "session", "machine_id")]
    chosen = select(*columns, SERIES).where(where).order_by(RUNS.c.start, RUNS.c.id)
    runs: Sequence[Any] = connection.execute(chosen).fetchall()
    of_runs = SESSIONS.c.id.in_(select(RUNS.c.session).where(where))
    places = commit_places(connection, of_runs)
    starts = [row.start.timestamp() for row in runs]
    if new is not None:
        return earlier(runs, starts, places, new)
    return in_order(runs, starts, places, lambda row: row.machine_id)


def last_values(connection: Connection, metric: str, runs: Sequence[tuple[float, int]], last: int) -> list[PastValue]:
    """Read the last values of a metric among these runs, which are given in order with their times."""
    found: list[PastValue] = []
    for end in range(len(runs), 0, -last):
        found = [*_values_of(connection, metric, runs[max(end - last, 0) : end]), *found]
        if len(found) >= last:
            break
    return found[-last:]


def _values_of(connection: Connection, metric: str, runs: Sequence[tuple[float, int]]) -> list[PastValue]:
    times = {run: time for time, run in runs}
    columns = (METRICS.c.value, METRICS.c.text, RUNS.c.id, RUNS.c.verdict, SERIES, RUNS.c.uid)
    of_session = (*(SESSIONS.c[name] for name in ("name", "uid", "commit", "branch", "branches")),)
    statement = (
        select(*columns, *of_session)
        .join(METRICS, and_(METRICS.c.run == RUNS.c.id, METRICS.c.name == metric))
        .join(SESSIONS, SESSIONS.c.id == RUNS.c.session)
        .where(RUNS.c.id.in_(times))
    )
    rows = connection.execute(statement).fetchall()
    found = {run: (scalar_of(value, text), others) for value, text, run, *others in rows}
    return [_past_value(run, times[run], *found[run]) for run in times if run in found]


def _past_value(run: int, time: float, value: Scalar, others: Sequence[Any]) -> PastValue:
    verdict, series, uid, session, session_uid, commit, branch, branches = others
    start = datetime.fromtimestamp(time, UTC)
    known = (branch,) if branch else tuple(branches or ())
    return PastValue(value, start, verdict, series, uid, run, session, session_uid, commit, known)


def history(
    connection: Connection,
    entry: EntryKey,
    last: int | None = None,
    metric: str | None = None,
    *,
    hunts: bool = False,
    among: ColumnElement[bool] | None = None,
    gone: Mapping[int, str] = NOBODY,
) -> list[PastRun]:
    """Read the last runs of an entry on any machine, in order, with all metrics or only one.

    Runs that are no history are read with `hunts`, and then only those; with `among`, only runs that meet it.
    """
    asked = and_(*_is(entry), _kind_of_run(hunts), true() if among is None else among)
    found = runs_in_order(connection, asked)
    chosen = {row.id: place for place, (_, row) in enumerate(found[-last:] if last else found)}
    wanted = select(RUNS.c.id).where(RUNS.c.id.in_(chosen) if last else asked)
    metrics = _metrics_by_run(connection, wanted, metric)
    rows = connection.execute(_runs().where(RUNS.c.id.in_(wanted.scalar_subquery()))).fetchall()
    return _past_runs(connection, sorted(rows, key=lambda row: chosen[row.id]), metrics, gone)


def _metrics_by_run(
    connection: Connection, runs: Select[tuple[int]], metric: str | None = None
) -> Mapping[int, Mapping[str, Scalar]]:
    """Read all metrics of these runs, or one."""
    measured = select(METRICS).where(METRICS.c.run.in_(runs.scalar_subquery())).order_by(METRICS.c.run, METRICS.c.name)
    if metric is not None:
        measured = measured.where(METRICS.c.name == metric)
    found: dict[int, dict[str, Scalar]] = defaultdict(dict)
    for run, name, value, text in connection.execute(measured):
        found[run][name] = scalar_of(value, text)
    return found


def runs_of_ids(connection: Connection, ids: Sequence[int]) -> list[PastRun]:
    """Read these runs with all metrics, in the order of the ids. Meant for some hundred runs."""
    if not ids:
        return []
    metrics: dict[int, dict[str, Scalar]] = defaultdict(dict)
    for run, name, value, text in sorted(bulk.parts_of(connection, METRICS, ids)):  # a name is there once
        metrics[run][name] = scalar_of(value, text)
    rows = {row.id: row for row in connection.execute(_runs().where(RUNS.c.id.in_(ids)))}
    return _past_runs(connection, [rows[run] for run in ids if run in rows], metrics)


def latest_runs(connection: Connection, entry: EntryKey, last: int, *, hunts: bool = False) -> list[PastRun]:
    """Read the last runs of an entry, in order. Of the metrics, only the measured time is read."""
    return history(connection, entry, last, _MEASURED_TIME, hunts=hunts)


def known_entries(connection: Connection, *, hunts: bool = False) -> list[KnownEntry]:
    """Read every entry that has a history, by name; with `hunts`, those with runs that are no history."""
    columns = (RUNS.c.name, RUNS.c.path, func.max(RUNS.c.originalname), func.count())
    grouped = select(*columns).where(_kind_of_run(hunts))
    found = connection.execute(grouped.group_by(RUNS.c.name, RUNS.c.path).order_by(RUNS.c.name, RUNS.c.path))
    return [KnownEntry(EntryKey(name, path, original), count) for name, path, original, count in found]


def find_entries(connection: Connection, named: str, *, hunts: bool = False) -> list[EntryKey]:
    """Find entries by id, by the name shared by all combinations of an entry, or by node id.

    The path of a node id may be the end of the recorded one, if that is the only such path.

    Raises BenchError with the nearest names if there is none.
    """
    if found := _entries_named(connection, named, hunts=hunts):
        return found
    if _entries_named(connection, named, hunts=not hunts):
        if hunts:
            raise BenchError(f"no bisect or A/B comparison has measured {named!r}")
        shown = f"`curator-bench history {shlex.quote(named)} --hunts` shows them"
        raise BenchError(f"{named!r} has no history, only runs of bisects or A/B comparisons; {shown}")
    known = [(entry.key.name, entry.key.originalname) for entry in known_entries(connection)]
    near = nearest(named, {name for both in known for name in both})
    raise BenchError(f"no runs of {named!r} are recorded{near or '; `curator-bench history` lists all entries'}")


def find_entries_of_any_run(connection: Connection, named: str) -> list[EntryKey]:
    """Find entries like `find_entries`, also those that only bisects or A/B comparisons have measured."""
    return _entries_named(connection, named, hunts=False) or find_entries(connection, named, hunts=True)


def _entries_named(connection: Connection, named: str, *, hunts: bool) -> list[EntryKey]:
    path, _, name = named.partition("::")
    meant = [RUNS.c.name == named, RUNS.c.originalname == named]
    if name:
        meant.append(and_(RUNS.c.path == path, or_(RUNS.c.name == name, RUNS.c.originalname == name)))
    for condition in meant:
        if found := _entries_where(connection, condition, hunts=hunts):
            return found
    is_within = RUNS.c.path.endswith(f"/{path}", autoescape=True)
    is_named = or_(RUNS.c.name == name, RUNS.c.originalname == name)
    found = _entries_where(connection, and_(is_within, is_named), hunts=hunts) if path and name else []
    return found if len({entry.path for entry in found}) == 1 else []


def _entries_where(connection: Connection, condition: ColumnElement[bool], *, hunts: bool) -> list[EntryKey]:
    columns = (RUNS.c.name, RUNS.c.path)
    chosen = select(*columns, func.max(RUNS.c.originalname)).where(condition, _kind_of_run(hunts))
    return [EntryKey(*row) for row in connection.execute(chosen.group_by(*columns).order_by(*columns))]


def metric_names(connection: Connection, entries: Iterable[EntryKey], *, hunts: bool = False) -> list[str]:
    """Read the names of the metrics that runs of these entries measured."""
    keys = [(entry.name, entry.path) for entry in entries]
    of_runs = select(RUNS.c.id).where(tuple_(RUNS.c.name, RUNS.c.path).in_(keys), _kind_of_run(hunts))
    found = connection.scalars(select(METRICS.c.name).distinct().where(METRICS.c.run.in_(of_runs)))
    return sorted(found)


def runs_of(connection: Connection, session: int, gone: Mapping[int, str] = NOBODY) -> list[PastRun]:
    """Read the runs of a session, by its id, in the order they began, with all metrics."""
    chosen = _runs().where(RUNS.c.session == session).order_by(RUNS.c.start, RUNS.c.id)
    metrics = _metrics_by_run(connection, select(RUNS.c.id).where(RUNS.c.session == session))
    return _past_runs(connection, connection.execute(chosen).fetchall(), metrics, gone)


def missed_requirements(connection: Connection, session: int) -> list[MissedRequirement]:
    """Read the requirements its runs did not meet, and the inconclusive gates."""
    missed = (
        select(RUNS.c.uid, *(REQUIREMENTS.c[name] for name in MISSED_COLUMNS))
        .join(RUNS, RUNS.c.id == REQUIREMENTS.c.run)
        .where(RUNS.c.session == session, REQUIREMENTS.c.met.is_not(True))
        .order_by(RUNS.c.start, RUNS.c.id, REQUIREMENTS.c.position)
    )
    return [MissedRequirement(*row) for row in connection.execute(missed)]


@dataclass(frozen=True, slots=True)
class NewestRun:
    """What makes other runs of an entry comparable with its newest one."""

    machine_id: str | None
    definition_hash: str | None


def newest_runs_of_file(connection: Connection, path: str) -> dict[str, NewestRun]:
    """Return the newest run of each entry of a file, by name. Raises BenchError if the file has no recorded runs."""
    columns = RUNS.c.name, RUNS.c.machine_id, RUNS.c.definition_hash
    oldest_first = select(*columns).where(RUNS.c.path == path, IS_NO_HUNT).order_by(RUNS.c.start, RUNS.c.id)
    found = {name: NewestRun(*what) for name, *what in connection.execute(oldest_first)}
    if not found:
        known = connection.execute(select(RUNS.c.path).distinct()).scalars()
        raise BenchError(f"no run of a file {path!r} is recorded{nearest(path, known)}: run it once with --benchmark")
    return found


def nearest(name: str, known: Iterable[str]) -> str:
    """Text for a message about an unknown name: the nearest known ones, else those with it in them; "" if none."""
    names = set(known)
    close = get_close_matches(name, names, n=_NAMES_SHOWN, cutoff=0.6)
    if not close and len(name) >= _SHORTEST_PART:
        close = sorted((one for one in names if name.lower() in one.lower()), key=lambda one: (len(one), one))
    close = close[:_NAMES_SHOWN]
    return f"; did you mean {', '.join(map(repr, close))}?" if close else ""


def _kind_of_run(hunts: bool) -> ColumnElement[bool]:
    return not_(IS_NO_HUNT) if hunts else IS_NO_HUNT


def _is(entry: EntryKey) -> tuple[ColumnElement[bool], ...]:
    return RUNS.c.name == entry.name, RUNS.c.path == entry.path


def _runs() -> Select[Any]:
    return select(*_RUN_COLUMNS).join(SESSIONS, SESSIONS.c.id == RUNS.c.session)


def _past_runs(
    connection: Connection,
    rows: Sequence[Row[Any]],
    metrics: Mapping[int, Mapping[str, Scalar]],
    gone: Mapping[int, str] = NOBODY,
) -> list[PastRun]:
    own = own_commits(connection, {row.session for row in rows})
    found = (_past_run(row, metrics.get(row.id, {}), own.get(row.invocation)) for row in rows)
    return [_as_gone(run, gone.get(row.id)) for run, row in zip(found, rows, strict=True)]


def _as_gone(run: PastRun, why: str | None) -> PastRun:
    return run if why is None else replace(run, verdict=str(Verdict.INTERRUPTED), error=why)


def _past_run(row: Row[Any], metrics: Mapping[str, Scalar], own: OwnCommit | None) -> PastRun:
    values = dict(row._mapping)
    for name in ("id", "session", "invocation"):
        del values[name]
    entry = EntryKey(values.pop("name"), values.pop("path"), values.pop("originalname"))
    past = PastRun(entry=entry, session=values.pop("session_name"), metrics=metrics, **values)
    return past if own is None else replace(past, commit=own.commit, branch=own.branch)


class OwnCommit(NamedTuple):
    """The commit of one invocation's checkout."""

    commit: str
    branch: str | None


def own_commits(connection: Connection, sessions: Collection[int]) -> dict[int, OwnCommit]:
    """Read the commits of invocations, by id, of those sessions that were joined: maybe at another commit."""
    numbers, found = sorted(sessions), {}
    for first in range(0, len(numbers), _AT_ONCE):
        some = INVOCATIONS.c.session.in_(numbers[first : first + _AT_ONCE])
        joined = select(INVOCATIONS.c.session).where(some).group_by(INVOCATIONS.c.session).having(func.count() > 1)
        columns = (INVOCATIONS.c.id, INVOCATIONS.c.environment)
        for invocation, environment in connection.execute(select(*columns).where(INVOCATIONS.c.session.in_(joined))):
            state = (environment or {}).get("session_commit") or {}
            if commit := state.get("commit"):
                found[invocation] = OwnCommit(commit, state.get("branch"))
    return found


def own_commits_of_runs(connection: Connection, sessions: Collection[int]) -> dict[int, str]:
    """Read the commits of the runs of those sessions that were joined, by id of the run."""
    own, found = own_commits(connection, sessions), {}
    invocations = sorted(own)
    for first in range(0, len(invocations), _AT_ONCE):
        some = RUNS.c.invocation.in_(invocations[first : first + _AT_ONCE])
        for run, invocation in connection.execute(select(RUNS.c.id, RUNS.c.invocation).where(some)):
            found[run] = own[invocation].commit
    return found
