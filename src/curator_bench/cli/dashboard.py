"""Reads runs, sessions and judgements from a database for the dashboard."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from curator_bench.causes.judged_history import (
    JudgedHistory,
    JudgedSeries,
    Query,
    RecordedDrift,
    RecordedStep,
    judge_history,
)
from curator_bench.cli.comparison import Sides, compare_sides
from curator_bench.cli.dashboard_findings import FindingReader, findings_of
from curator_bench.cli.heat import cells_of
from curator_bench.cli.show import said
from curator_bench.files.codec import from_document, to_document
from curator_bench.metric_names import is_secondary
from curator_bench.provenance.git import commits_named, tags
from curator_bench.report.site.model import (
    Beside,
    BlockOf,
    CommitFacts,
    ComparedFacts,
    Directions,
    DriftFacts,
    EntryState,
    FindingFacts,
    Group,
    GroupFacts,
    HistoryState,
    InvocationFacts,
    LevelFacts,
    PointFacts,
    RunFacts,
    SeriesFacts,
    SessionFacts,
    SiteEntry,
    StepFacts,
)
from curator_bench.store import dashboard_queries, queries
from curator_bench.store.all_series import RunPlace, declared_directions, required_metrics
from curator_bench.store.entry_axes import Combination, axes_of
from curator_bench.store.measured import Measured, measured, measured_around, of_other_sessions, only
from curator_bench.store.queries import EntryKey, PastRun, PastSession
from curator_bench.store.records import InvocationRecord
from curator_bench.store.run_marks import Block, EntryMarks, Marks, marks_of
from curator_bench.store.series import identities
from curator_bench.values import Subject
from curator_bench.verdict import judging
from curator_bench.verdict.direction import better_of
from curator_bench.verdict.judgement import Course
from curator_bench.verdict.step_states import State

if TYPE_CHECKING:
    from sqlalchemy import Connection


class RecordedHistory:
    """The history in one database. Its connection must stay open."""

    def __init__(self, connection: Connection, query: Query, sessions: Sequence[PastSession]) -> None:
        """`sessions` are shown, oldest first. Changes that began with the last one are new."""
        self._connection, self._query, self._past = connection, query, sessions
        self._by_uid = {one.uid: one for one in sessions}
        self._identities: dict[str | None, Mapping[str, str]] = {}

    @cached_property
    def _facts(self) -> dict[int, SessionFacts]:
        subjects = dashboard_queries.subjects_by_session(self._connection, self._past)
        invocations = dashboard_queries.invocations_by_session(self._connection, self._past)
        measured_with = dashboard_queries.circumstances_by_session(self._connection, self._past, _MEASURED_WITH)
        found = {one.id: _session(one, subjects.get(one.id, ()), invocations.get(one.id, ())) for one in self._past}
        return {
            number: replace(
                one,
                packages=measured_with[number]["packages"],
                variables=measured_with[number]["environment"],
                configuration=measured_with[number]["configuration"],
            )
            for number, one in found.items()
        }

    @cached_property
    def _declared(self) -> Mapping[tuple[str, str, str], str]:
        return declared_directions(self._connection)

    @cached_property
    def _required(self) -> Mapping[tuple[str, str], Sequence[str]]:
        return required_metrics(self._connection)

    @cached_property
    def _judged(self) -> JudgedHistory:
        return judge_history(self._connection, self._query)

    @cached_property
    def _measured(self) -> Measured:
        return measured(self._connection)

    @cached_property
    def _ids(self) -> Mapping[str, int]:
        return {one.uid: one.id for one in self._past}

    @cached_property
    def _marks(self) -> Mapping[SiteEntry, EntryMarks]:
        return {SiteEntry(one.entry.name, one.entry.path): one for one in self._all_marks.entries}

    def _identities_of(self, series: set[str | None]) -> dict[str, Mapping[str, str]]:
        """Return arguments, datasets and the like of each of these series. Each is read once."""
        unread = series - self._identities.keys()
        found = identities(self._connection, unread)
        self._identities |= {hashed: found.get(hashed or "", {}) for hashed in unread}
        return {hashed: self._identities[hashed] for hashed in series if hashed}

    @cached_property
    def _subjects(self) -> Mapping[str, str]:
        """The packages under test of each session, also of those without a page."""
        return {
            uid: ", ".join(Subject(one.package, one.version, one.commit, one.dirty).shown for one in found)
            for uid, found in dashboard_queries.subjects_by_uid(self._connection).items()
        }

    @cached_property
    def _all_marks(self) -> Marks:
        return marks_of(self._connection)

    @cached_property
    def _newest_that_ran(self) -> int | None:
        """The newest session with runs. A session in which nothing was selected does not count."""
        return next((one.id for one in reversed(self._past) if one.verdicts), None)

    def sessions(self) -> Sequence[SessionFacts]:
        return list(self._facts.values())

    def state(self) -> HistoryState:
        marks = self._all_marks
        entries = [
            EntryState(
                entry=entry,
                original=one.entry.originalname,
                mark=one.mark,
                blocks=[(block.mark, len(block.runs)) for block in one.blocks],
                machines=one.machines,
                newest_machine=one.newest_machine,
                broken=one.broken_sessions,
            )
            for entry, one in self._marks.items()
        ]
        sessions = {one.uid: marks.sessions[one.id] for one in self._past}
        shown = {one.id for one in self._past}
        earlier = [mark for number, mark in sorted(marks.sessions.items()) if number not in shown]
        return HistoryState(self._rules, entries, sessions, earlier)

    @property
    def _rules(self) -> str:
        return repr((self._query, tags(self._query.repo or Path())))

    def blocks(self, wanted: Sequence[BlockOf]) -> Sequence[Sequence[RunFacts]]:
        blocks = [self._marks[entry].blocks[number] for entry, number in wanted]
        found = iter(self._runs([run for block in blocks for run in block.runs]))
        return [_in_place(block, list(islice(found, len(block.runs)))) for block in blocks]

    def broken_since(self, entry: SiteEntry) -> RunFacts | None:
        return next(iter(self._runs(self._marks[entry].broken[:1])), None)

    def ran(self, session: SessionFacts) -> Sequence[tuple[SiteEntry, RunFacts]]:
        past = self._by_uid[session.uid]
        ran = self._ran([run for run in queries.runs_of(self._connection, past) if not run.hunt])
        parameters = dashboard_queries.parameters_of_session(self._connection, past.id)
        return [(entry, replace(run, parameters=parameters.get(run.uid, {}))) for entry, run in ran]

    def _ran(self, past: Sequence[PastRun]) -> list[tuple[SiteEntry, RunFacts]]:
        entries = [SiteEntry(run.entry.name, run.entry.path) for run in past]
        return list(zip(entries, self._facts_of(past), strict=True))

    def everything(self) -> JudgedHistory:
        """Return the judgement of the whole database."""
        return self._judged

    def steps(self) -> Sequence[StepFacts]:
        """Return the steps of all entries, oldest first."""
        return [self.step_facts(one) for one in self._judged.steps]

    def drifts(self) -> Sequence[DriftFacts]:
        """Return the drifts of all entries."""
        return [_drift(one) for one in self._judged.drifts]

    def series(self) -> Sequence[SeriesFacts]:
        """Return every judged metric on every machine."""
        return [_series(one) for one in self._judged.series]

    def judged(self, groups: Collection[Group], beside: Beside) -> tuple[Mapping[Group, GroupFacts], float]:
        among = {(entry.name, entry.path, machine) for entry, machine in groups}
        others = judging.Beside(beside.p_values, beside.tests)
        found = judge_history(self._connection, self._query, among, others)
        uids = {one.id: one.uid for one in self._past}
        grouped = {group: _Judged() for group in groups}
        for series in found.series:
            grouped[_group(series.series)].series.append(series)
        for one, course in found.courses:
            grouped[_group(one)].courses.append(course)
        for step in found.steps:
            grouped[_group(step)].steps.append(self.step_facts(step))
            grouped[_group(step)].recorded.append(to_document(step))
        for drift in found.drifts:
            grouped[_group(drift)].drifts.append(_drift(drift))
        for ended in found.left_out:
            grouped[SiteEntry(ended.entry, ended.path), ended.machine_id].left_out.append(ended.text)
        facts = {group: one.facts(group[1], uids) for group, one in grouped.items()}
        p_values = [*beside.p_values, *(value for one in facts.values() for value in (*one.believed, *one.doubted))]
        tests = beside.tests + sum(one.tests for one in facts.values())
        return facts, judging.largest_believed(p_values, tests)

    def axes(self) -> Mapping[SiteEntry, Mapping[str, str]]:
        newest = [
            Combination(entry.name, entry.path, marks.blocks[-1].runs[-1])
            for entry, marks in self._marks.items()
            if entry.has_axes
        ]
        return {SiteEntry(*key): axes for key, axes in axes_of(self._connection, newest).items()}

    def commits(self) -> Mapping[str, CommitFacts]:
        named = [one.commit for one in self._past if one.commit]
        found = commits_named(self._query.repo or Path(), named)
        return {name: CommitFacts(one.sha, one.author, one.subject) for name, one in found.items()}

    def findings(self, recorded: Sequence[Any], detailed: int) -> Sequence[FindingFacts]:
        steps = [from_document(RecordedStep, one) for one in recorded]
        found = findings_of(self._connection, steps)
        found.sort(key=lambda one: one.state is not State.OPEN)
        return FindingReader(self._connection, self._query.repo, self.step_facts, self._point).describe(found, detailed)

    def compared(self, a: SessionFacts, b: SessionFacts, *, is_one_of_many: bool) -> Sequence[ComparedFacts]:
        """Compare two sessions in the same way as `curator-bench compare`."""
        in_a, in_b = {self._ids[a.uid]}, {self._ids[b.uid]}
        everything = self._measured if is_one_of_many else measured_around(self._connection, in_a | in_b)
        after = only(everything, in_b)
        known = {measure: everything[measure] for measure in after}
        others, series = (
            of_other_sessions(known, in_b, in_a),
            {kind.series_hash for kinds in known.values() for kind in kinds},
        )
        sides = Sides(only(known, in_a), after, others, self._declared, self._required, self._identities_of(series))
        return [
            ComparedFacts(
                entry=SiteEntry(one.measure.name, one.measure.path),
                metric=one.measure.metric,
                machine=one.machine_id,
                says=one.judgement.says,
                reason=one.judgement.reason,
                before=one.judgement.before,
                after=one.judgement.after,
                change=one.judgement.change,
                interval=one.judgement.interval,
                visible=one.judgement.visible,
            )
            for one in compare_sides(sides, self._query.better, self._query.min_effect)
        ]

    def runs_of_last_session(self) -> Sequence[tuple[SiteEntry, RunFacts]]:
        """Return the last session's runs in the order they began."""
        session = self._past[-1]
        return self._ran([run for run in queries.runs_of(self._connection, session) if session.hunt or not run.hunt])

    def directions(self, entry: SiteEntry, metrics: Sequence[str]) -> Directions:
        found = {
            name: better_of(name, self._declared.get((entry.name, entry.path, name)), self._query.better)
            for name in metrics
        }
        known = {name: str(better) for name, better in found.items() if better}
        beside = frozenset(name for name in metrics if is_secondary(name, metrics))
        return Directions(known, beside, self._required.get((entry.name, entry.path), ()))

    def _runs(self, ids: Sequence[int]) -> Sequence[RunFacts]:
        return self._facts_of(queries.runs_of_ids(self._connection, ids))

    def _facts_of(self, runs: Sequence[PastRun]) -> Sequence[RunFacts]:
        uids = [run.uid for run in runs]
        missed = dashboard_queries.missed_by_run(self._connection, uids)
        links = dashboard_queries.links_by_run(self._connection, uids)
        return [
            _run(run, missed.get(run.uid, ()), links.get(run.uid), self._subjects.get(run.session_uid, ""))
            for run in runs
        ]

    def step_facts(self, one: RecordedStep) -> StepFacts:
        """Describe a step for people."""
        return StepFacts(
            entry=SiteEntry(one.entry.name, one.entry.path),
            metric=one.metric,
            machine=one.machine_id,
            kind=str(one.step.word),
            state=None if one.state is None else str(one.state),
            change=one.step.change,
            interval=one.step.interval,
            level_before=one.step.before,
            level_after=one.step.after,
            before=self._point(one.before),
            first=self._point(one.first),
            is_new=one.first.session_id == self._newest_that_ran,
            subjects=tuple(one.subjects),
        )

    def _point(self, place: RunPlace) -> PointFacts:
        known = self._facts.get(place.session_id)
        return PointFacts(place.session, known.slug if known else None, place.commit, place.start)


@dataclass(slots=True)
class _Judged:
    """The judgements of one entry on one machine."""

    series: list[JudgedSeries] = field(default_factory=list)
    courses: list[Course] = field(default_factory=list)
    steps: list[StepFacts] = field(default_factory=list)
    recorded: list[Any] = field(default_factory=list)
    drifts: list[DriftFacts] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def facts(self, machine: str | None, uids: Mapping[int, str]) -> GroupFacts:
        return GroupFacts(
            machine=machine,
            series=tuple(map(_series, self.series)),
            steps=tuple(self.steps),
            drifts=tuple(self.drifts),
            recorded=tuple(self.recorded),
            left_out=tuple(self.left_out),
            believed=tuple(step.p_value for course in self.courses for step in course.steps),
            doubted=tuple(value for course in self.courses for value in course.doubted),
            tests=sum(course.is_tested for course in self.courses),
            cells=cells_of(self.series, uids),
        )


class _OfGroup(Protocol):
    @property
    def entry(self) -> EntryKey: ...
    @property
    def machine_id(self) -> str | None: ...


def _group(one: _OfGroup) -> Group:
    return SiteEntry(one.entry.name, one.entry.path), one.machine_id


def _in_place(block: Block, runs: Sequence[RunFacts]) -> Sequence[RunFacts]:
    """Add to runs that stand elsewhere than they began when that is."""
    if not block.moved:
        return runs
    places = [None if (moved := block.moved.get(run)) is None else _moment(moved) for run in block.runs]
    return [replace(run, place=place) for run, place in zip(runs, places, strict=True)]


def _run(
    run: PastRun, missed: Sequence[queries.MissedRequirement], links: Mapping[str, Any] | None, subjects: str
) -> RunFacts:
    return RunFacts(
        **{name: getattr(run, name) for name in _SAME},
        machine=run.machine_id,
        series=run.series_hash,
        definition=run.content_hash,
        duration=run.measured_s,
        missed=tuple(said(one) for one in missed if not one.is_inconclusive),
        inconclusive=tuple(said(one) for one in missed if one.is_inconclusive),
        disturbed=run.disturbed or "",
        links=_texts(links),
        subjects=subjects,
    )


def _drift(one: RecordedDrift) -> DriftFacts:
    return DriftFacts(
        entry=SiteEntry(one.entry.name, one.entry.path),
        metric=one.metric,
        machine=one.machine_id,
        change=one.drift.change,
        interval=one.drift.interval,
        level_before=one.drift.before,
        level_after=one.drift.after,
        since=one.since_text,
        start=one.since,
    )


def _series(one: JudgedSeries) -> SeriesFacts:
    starts, newest = one.series.starts, one.newest
    levels = tuple(
        LevelFacts(_moment(starts[level.start]), _moment(starts[level.end - 1]), level.middle, level.noise)
        for level in one.course.levels
    )
    return SeriesFacts(
        entry=SiteEntry(one.series.entry.name, one.series.entry.path),
        metric=one.series.metric,
        machine=one.series.machine_id,
        says=newest.says,
        reason=newest.reason,
        decides=newest.decides,
        history=newest.history,
        noise=newest.noise,
        visible=newest.visible,
        limit=one.limit,
        is_gated=one.is_gated,
        is_blind=one.is_blind,
        levels=levels,
    )


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)


_SAME = (
    *("uid", "session", "session_uid", "verdict", "attempt", "start", "error", "log_path", "commit"),
    *("branch", "metrics"),
)
_MEASURED_WITH = ("packages", "environment", "configuration")
"""The kinds of circumstances that two sessions are compared by; the machine is recorded with the invocation, too."""
_OF_EVERY_CAPTURE = frozenset(
    {"schema_version", "captured_at", "boot_id", "load_average", "session_commit", "subjects"}
)
"""Facts that differ between any two captures, or are shown elsewhere."""


def _session(past: PastSession, subjects: Sequence[Subject], invoked: Sequence[InvocationRecord]) -> SessionFacts:
    return SessionFacts(
        uid=past.uid,
        name=past.name,
        start=past.start,
        reason=past.reason,
        commit=past.commit,
        dirty=past.dirty,
        branch=past.branch,
        results=past.results_directory,
        verdicts=past.verdicts,
        runs=past.runs,
        links=_texts({"viewer": past.viewer_url, **(past.sink_urls or {})}),
        subjects=[Subject(one.package, one.version, one.commit, one.dirty) for one in subjects],
        invocations=[_invocation(one) for one in invoked],
        environment=dict(_environment(subjects, invoked)),
    )


def _invocation(one: InvocationRecord) -> InvocationFacts:
    status = "did not end" if one.end is None else f"exit code {one.exit_status}"
    return InvocationFacts(one.start, one.host, status, one.command_line, one.ci_run_url)


def _environment(subjects: Sequence[Subject], invoked: Sequence[InvocationRecord]) -> Iterator[tuple[str, str]]:
    """Yield a line per fact, to put two sessions side by side. With several machines, each has its own lines."""
    for one in subjects:
        facts = Subject(one.package, one.version, one.commit, one.dirty)
        yield f"package {one.package}", facts.shown.removeprefix(one.package).strip()
    hosts = {one.host for one in invoked if one.environment}
    for invocation in invoked:
        where = f"{invocation.host} " if len(hosts) > 1 else ""
        for name, value in _flat(invocation.environment or {}):
            yield f"{where}{name}", value


def _flat(facts: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        if above or name not in _OF_EVERY_CAPTURE:
            if isinstance(value, Mapping):
                yield from _flat(value, f"{above}{name}.")
            elif value not in (None, [], ""):
                listed = value if isinstance(value, list) else [value]
                yield f"{above}{name}", ", ".join(map(str, listed))


def _texts(links: Mapping[str, Any] | None) -> dict[str, str]:
    return {str(name): url for name, url in (links or {}).items() if isinstance(url, str) and url}
