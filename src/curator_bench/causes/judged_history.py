"""Judges all recorded history: steps with their runs and commits, drift, and the newest runs of each metric."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from curator_bench.causes.findings import RecordedFinding, changed_subjects, recorded_findings
from curator_bench.causes.left_out import LeftOut, disturbed, left_out
from curator_bench.metric_names import is_secondary
from curator_bench.provenance.git import tags
from curator_bench.store.acceptances import Accepted, acceptances
from curator_bench.store.all_series import (
    Group,
    RunPlace,
    Series,
    all_series,
    commits_of,
    declared_directions,
    disturbed_runs,
    gate_limits,
    places_of,
    required_metrics,
    subject_commits,
)
from curator_bench.store.commit_order import commit_order
from curator_bench.store.queries import EntryKey, own_commits_of_runs
from curator_bench.verdict.cases import MIN_EFFECT, History, Rules
from curator_bench.verdict.direction import Better, better_of
from curator_bench.verdict.drifting import drifts
from curator_bench.verdict.ends import Segmentation, segmentations
from curator_bench.verdict.judgement import Drift, Judgement, Mark, Step, Trend, Word
from curator_bench.verdict.marks import Release, day_of, marks_of
from curator_bench.verdict.step_states import State, state_of
from curator_bench.verdict.trends import NOTHING_BESIDE, Beside, trends

if TYPE_CHECKING:
    from sqlalchemy import Connection

MUST_SEE = 0.10
"""The change that a metric without a gate should be able to show. A metric that would miss it is blind."""
_LATER_NAMES = 10
"""A finding may have been named after a run that is at most this many runs later than the first certainly after it."""


@dataclass(frozen=True, slots=True)
class Query:
    """The part of the history to judge, and the rules."""

    metric: str | None = None
    since: datetime | None = None
    better: str | None = None
    """The direction of metrics that have none by name or declaration."""
    min_effect: float = MIN_EFFECT
    branch: str | None = None
    """Only sessions of this branch."""
    must_see: float = MUST_SEE
    repo: Path | None = None
    """The checkout whose tags are reference points of drift."""
    machine: str | None = None
    """Only runs on this kind of machine."""


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A step with the last run before it and the first run after it."""

    entry: EntryKey
    metric: str
    machine_id: str | None
    step: Step
    state: State | None
    """None for an improvement, which needs no action."""
    before: RunPlace
    first: RunPlace
    newest: RunPlace
    """The last run of the series."""
    last_before: RunPlace
    """The last run that is certainly before it."""
    first_after: RunPlace
    """The first run that is certainly after it."""
    is_required: bool
    """True if a requirement names the metric."""
    beginnings: tuple[str, ...]
    """Commits and starts of the runs it may begin with, and of a few later ones."""
    subjects: tuple[tuple[str, str, str], ...] = ()
    """Packages under test that changed with it: name, commit or version before and after."""


@dataclass(frozen=True, slots=True)
class RecordedDrift:
    """A metric that became worse slowly."""

    entry: EntryKey
    metric: str
    machine_id: str | None
    drift: Drift
    since: datetime
    """The start of the run drift is measured from."""
    recent: datetime
    """The start of the first of the runs that show the current level."""
    newest: datetime

    @property
    def since_text(self) -> str:
        """The reference point as text after "since": a day, a release, or the best level with its day."""
        day = day_of(self.since.timestamp())
        return self.drift.since if day in self.drift.since else f"{self.drift.since} ({day})"


@dataclass(frozen=True, slots=True)
class JudgedSeries:
    """One metric of one entry on one machine: its levels, its steps, and the judgement of its newest runs."""

    series: Series
    better: Better
    trend: Trend
    limit: float
    """The change it should be able to show: that of its gate, or the default."""
    is_gated: bool

    @property
    def newest(self) -> Judgement:
        return self.trend.newest

    @property
    def is_blind(self) -> bool:
        return self.newest.is_blind_to(self.limit)


@dataclass(frozen=True, slots=True)
class JudgedHistory:
    """The judgement of a whole database, oldest first."""

    steps: Sequence[RecordedStep]
    findings: Sequence[RecordedFinding]
    """The same steps by their cause."""
    drifts: Sequence[RecordedDrift]
    series: Sequence[JudgedSeries]
    without_direction: Collection[str] = ()
    """Metrics that are not judged because their better direction is unknown."""
    left_out: Sequence[LeftOut] = ()
    """Runs of ended series. Of these, only regressions that are still open are judged."""
    disturbed: Sequence[LeftOut] = ()
    """Disturbed runs, if the whole database was judged."""
    trends: Sequence[tuple[Series, Trend]] = ()
    """Every history that was judged, also those of ended series."""

    @property
    def ended(self) -> list[Series]:
        """Series whose newest runs did not measure a number."""
        return [one.series for one in self.series if one.series.runs_without]


def judge_history(
    connection: Connection, query: Query, among: Collection[Group] | None = None, beside: Beside = NOTHING_BESIDE
) -> JudgedHistory:
    """Judge every series of the database, or of these groups; `beside` is the judgement of the others."""
    asked, unknown = _asked(connection, query, among)
    histories = [History(one.values, rules) for one, rules, _ in asked]
    segmentation = segmentations(histories)
    found = trends(histories, beside=beside, known=segmentation)
    judged = [
        JudgedSeries(one, rules.better, trend, query.must_see if gate is None else gate, is_gated=gate is not None)
        for (one, rules, gate), trend in zip(asked, found, strict=True)
        if rules.better is not None and one.is_newest
    ]
    closed = _acceptances(connection)
    stepped = [(one, rules, trend.steps) for (one, rules, _), trend in zip(asked, found, strict=True) if trend.steps]
    known = _known(connection, [(one, steps) for one, _, steps in stepped], closed)
    recorded = (step for one in stepped for step in _recorded_steps(*one, known))
    steps = sorted(recorded, key=lambda one: (one.first.start, one.entry, one.metric))
    orders = commit_order(connection, {place.commit for place in known.places.values()})
    causes = recorded_findings(steps, orders, known.subjects)
    newest = [row for row in zip(histories, segmentation, (one for one, *_ in asked), strict=True) if row[2].is_newest]
    crept = _drifts(connection, newest, closed, query)
    if query.since is not None:
        steps = [one for one in steps if one.first.start >= query.since]
        causes = [one for one in causes if any(step.first.start >= query.since for step in one.steps)]
        crept = [one for one in crept if one.newest >= query.since]
    every = [one for one, *_ in asked]
    left = left_out(connection, every)
    apart = disturbed(disturbed_runs(connection, query.branch, machine=query.machine)) if among is None else []
    return JudgedHistory(steps, causes, crept, judged, unknown, left, apart, list(zip(every, found, strict=True)))


def _asked(
    connection: Connection, query: Query, among: Collection[Group] | None
) -> tuple[list[tuple[Series, Rules, float | None]], set[str]]:
    """Return the directed series, each with its rules and its gate's limit, and the metrics without a direction."""
    every = all_series(connection, query.metric, query.branch, among, machine=query.machine)
    declared, limits = declared_directions(connection), gate_limits(connection)
    measured: dict[EntryKey, set[str]] = defaultdict(set)
    for one in every:
        measured[one.entry].add(one.metric)
    asked, unknown = [], set()
    for one in every:
        if is_secondary(one.metric, measured[one.entry]):
            continue
        better = better_of(one.metric, declared.get(_key(one)), query.better)
        if better is None:
            unknown.add(one.metric)
        else:
            asked.append((one, Rules(better, query.min_effect), limits.get(_key(one))))
    return asked, unknown


def _key(one: Series) -> tuple[str, str, str]:
    return one.entry.name, one.entry.path, one.metric


_Closed = Mapping[tuple[str, str, str], Sequence[Accepted]]


def _acceptances(connection: Connection) -> _Closed:
    closed: dict[tuple[str, str, str], list[Accepted]] = defaultdict(list)
    for accepted in acceptances(connection):
        closed[accepted.name, accepted.path, accepted.metric].append(accepted)
    return closed


def _drifts(
    connection: Connection,
    judged: Sequence[tuple[History, Segmentation | None, Series]],
    closed: _Closed,
    query: Query,
) -> list[RecordedDrift]:
    """Return the drift of each series since its last accepted level, or over all its runs."""
    commits = commits_of(connection)
    releases = [Release(tag.name, tag.commit, tag.time) for tag in tags(query.repo or Path())]
    firsts = [_first_run(one, closed.get(_key(one), ())) for *_, one in judged]
    asked, known = [], []
    for (history, own, one), first in zip(judged, firsts, strict=True):
        since = replace(history, values=history.values[first:])
        asked.append((since, _marks(one, first, commits, releases)))
        known.append(segmentations([since])[0] if first else own)
    found = zip(judged, firsts, drifts(asked, least=query.min_effect, known=known), strict=True)
    return [_recorded(one, first, drift) for (*_, one), first, drift in found if drift is not None]


def _first_run(one: Series, accepted: Sequence[Accepted]) -> int:
    since = max((known.since.timestamp() for known in accepted), default=-np.inf)
    return int(np.searchsorted(one.starts, since))


def _marks(one: Series, first: int, commits: Mapping[int, str], releases: Sequence[Release]) -> list[Mark]:
    of_runs = [commits.get(session) for session in one.sessions[first:].tolist()] if releases else []
    return marks_of(one.starts[first:], of_runs, releases)


_RECENT = 10
"""The number of newest runs that show the current level when drift is accepted."""


def _recorded(one: Series, first: int, drift: Drift) -> RecordedDrift:
    since, recent, newest = (
        _moment(one.starts[at]) for at in (first + drift.index, -min(_RECENT, len(one.starts)), -1)
    )
    return RecordedDrift(one.entry, one.metric, one.machine_id, drift, since, recent, newest)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)


@dataclass(frozen=True, slots=True)
class _Known:
    """Facts that steps are described with."""

    places: Mapping[int, RunPlace]
    """By run id."""
    commits: Mapping[int, str]
    """The commit of each session."""
    own_commits: Mapping[int, str]
    """The commit of each run of a session that was joined, maybe at another commit."""
    subjects: Mapping[int, dict[str, str]]
    required: Mapping[tuple[str, str], Sequence[str]]
    closed: _Closed

    def place(self, series: Series, at: int) -> RunPlace:
        """Return the place of a run of a series, with its time in the order of commits."""
        return replace(self.places[int(series.runs[at])], start=_moment(series.starts[at]))


def _around(step: Step) -> tuple[int, ...]:
    """Return the last run before the step and its first, most likely and certainly."""
    return step.began - 1, step.began, step.last_before, step.first_after


def _known(connection: Connection, asked: Sequence[tuple[Series, Sequence[Step]]], closed: _Closed) -> _Known:
    wanted = {int(one.runs[at]) for one, steps in asked for step in steps for at in _around(step)}
    places = places_of(connection, wanted | {int(one.runs[-1]) for one, _ in asked})
    subjects = subject_commits(connection, {places[run].session_id for run in wanted})
    sessions = {number for one, _ in asked for number in one.sessions.tolist()}
    own = own_commits_of_runs(connection, sessions)
    return _Known(places, commits_of(connection), own, subjects, required_metrics(connection), closed)


def _recorded_steps(one: Series, rules: Rules, steps: Sequence[Step], known: _Known) -> Iterator[RecordedStep]:
    """Yield the steps of a series with the runs around them and their states."""
    required = known.required.get((one.entry.name, one.entry.path), ())
    for number, step in enumerate(steps):
        before, first, last_before, first_after = (known.place(one, at) for at in _around(step))
        is_accepted = any(first.start <= accepted.until for accepted in known.closed.get(_key(one), ()))
        state = state_of(step, steps[number + 1 :], rules, accepted=is_accepted)
        if step.word is Word.NO_CHANGE or (not one.is_newest and state is not State.OPEN):
            continue
        yield RecordedStep(
            entry=one.entry,
            metric=one.metric,
            machine_id=one.machine_id,
            step=step,
            state=state,
            before=before,
            first=first,
            newest=known.place(one, -1),
            last_before=last_before,
            first_after=first_after,
            is_required=one.metric in required,
            beginnings=_beginnings(one, step, known),
            subjects=changed_subjects(known.subjects, before, first),
        )


def _beginnings(one: Series, step: Step, known: _Known) -> tuple[str, ...]:
    runs = slice(step.last_before + 1, step.first_after + 1 + _LATER_NAMES)
    by_run = zip(one.runs[runs].tolist(), one.sessions[runs].tolist(), strict=True)
    found = [commit for run, session in by_run if (commit := known.own_commits.get(run) or known.commits.get(session))]
    return (*found, *(_moment(start).isoformat() for start in one.starts[runs]))
