"""Reads runs, sessions and judgements from a database for the dashboard. `dashboard_facts` describes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curator_bench.causes.judged_history import (
    JudgedHistory,
    Query,
    RecordedStep,
    judge_history,
)
from curator_bench.causes.left_out import disturbed
from curator_bench.cli.comparison import Sides, compare_sides
from curator_bench.cli.dashboard_facts import (
    MEASURED_WITH,
    GroupJudgement,
    drift_facts,
    group_of,
    run_facts,
    runs_in_place,
    series_facts,
    session_facts,
)
from curator_bench.cli.dashboard_findings import FindingReader, Told, findings_of
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
    PointFacts,
    RunFacts,
    SeriesFacts,
    SessionFacts,
    SiteEntry,
    StepFacts,
)
from curator_bench.store import dashboard_queries, queries
from curator_bench.store.all_series import RunPlace, declared_directions, disturbed_runs, required_metrics
from curator_bench.store.entry_axes import Combination, axes_of
from curator_bench.store.measured import Measured, measured, measured_around, of_other_sessions, only
from curator_bench.store.past_sessions import PastSession
from curator_bench.store.profiles import profiled_hunt_ids, profiled_ids, profiles_of
from curator_bench.store.queries import EntryKey, PastRun
from curator_bench.store.run_marks import EntryMarks, Marks, marks_of
from curator_bench.store.series import identities
from curator_bench.values import Profile, Subject
from curator_bench.verdict import trends
from curator_bench.verdict.direction import better_of
from curator_bench.verdict.step_states import State

if TYPE_CHECKING:
    from sqlalchemy import Connection


_PROFILES_SHOWN = 20
"""The number of newest runs of an entry whose profiles are shown; and of as many of its hunts."""


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
        measured_with = dashboard_queries.circumstances_by_session(self._connection, self._past, MEASURED_WITH)
        found = {
            one.id: session_facts(one, subjects.get(one.id, ()), invocations.get(one.id, ())) for one in self._past
        }
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
                mark=self._mark(one),
                blocks=[(block.mark, len(block.runs)) for block in one.blocks],
                machines=one.machines,
                newest_machine=one.newest_machine,
                broken=one.broken_sessions,
                profiled=self._profiled(one),
            )
            for entry, one in self._marks.items()
        ]
        sessions = {one.uid: marks.sessions[one.id] for one in self._past}
        shown = {one.id for one in self._past}
        earlier = [mark for number, mark in sorted(marks.sessions.items()) if number not in shown]
        return HistoryState(self._rules, entries, sessions, earlier)

    def _mark(self, marks: EntryMarks) -> str:
        """Return the mark of an entry: a profile may be recorded after its run."""
        found = self._profiled_of(marks)
        return f"{marks.mark} profiled {','.join(map(str, found))}" if found else marks.mark

    def _profiled_of(self, marks: EntryMarks) -> list[int]:
        if not self._profiled_ids:
            return []
        own = [run for block in marks.blocks for run in block.runs if run in self._profiled_ids][-_PROFILES_SHOWN:]
        return [*own, *self._profiled_hunts.get(marks.entry, ())[-_PROFILES_SHOWN:]]

    def _profiled(self, marks: EntryMarks) -> Sequence[RunFacts]:
        found = self._profiled_of(marks)
        return sorted(self._runs(found), key=lambda run: run.start) if found else ()

    @cached_property
    def _profiled_hunts(self) -> Mapping[EntryKey, Sequence[int]]:
        return profiled_hunt_ids(self._connection)

    def _with_profile(self, entry: EntryKey) -> frozenset[str]:
        """Return the uids of the runs of an entry whose profiles are shown."""
        marks = self._marks.get(SiteEntry(entry.name, entry.path))
        return frozenset(run.uid for run in self._profiled(marks)) if marks else frozenset()

    @cached_property
    def _profiled_ids(self) -> set[int]:
        return profiled_ids(self._connection)

    def profiles(self, uids: Sequence[str]) -> Mapping[str, Sequence[Profile]]:
        return profiles_of(self._connection, uids)

    @property
    def _rules(self) -> str:
        return repr((self._query, tags(self._query.repo or Path())))

    def blocks(self, wanted: Sequence[BlockOf]) -> Sequence[Sequence[RunFacts]]:
        blocks = [self._marks[entry].blocks[number] for entry, number in wanted]
        found = iter(self._runs([run for block in blocks for run in block.runs]))
        return [runs_in_place(block, list(islice(found, len(block.runs)))) for block in blocks]

    def broken_since(self, entry: SiteEntry) -> RunFacts | None:
        return next(iter(self._runs(self._marks[entry].broken[:1])), None)

    def ran(self, session: SessionFacts) -> Sequence[tuple[SiteEntry, RunFacts]]:
        past = self._by_uid[session.uid]
        ran = self._ran([run for run in queries.runs_of(self._connection, past.id) if not run.hunt])
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

    def disturbed(self) -> Sequence[str]:
        counts = disturbed_runs(self._connection, self._query.branch, machine=self._query.machine)
        return [one.text for one in disturbed(counts)]

    def drifts(self) -> Sequence[DriftFacts]:
        """Return the drifts of all entries."""
        return [drift_facts(one) for one in self._judged.drifts]

    def series(self) -> Sequence[SeriesFacts]:
        """Return every judged metric on every machine."""
        return [series_facts(one) for one in self._judged.series]

    def judged(self, groups: Collection[Group], beside: Beside) -> tuple[Mapping[Group, GroupFacts], float]:
        among = {(entry.name, entry.path, machine) for entry, machine in groups}
        others = trends.Beside(beside.p_values, beside.tests)
        found = judge_history(self._connection, self._query, among, others)
        uids = {one.id: one.uid for one in self._past}
        grouped = {group: GroupJudgement() for group in groups}
        for series in found.series:
            grouped[group_of(series.series)].series.append(series)
        for one, trend in found.trends:
            grouped[group_of(one)].trends.append(trend)
        for step in found.steps:
            grouped[group_of(step)].steps.append(self.step_facts(step))
            grouped[group_of(step)].recorded.append(to_document(step))
        for drift in found.drifts:
            grouped[group_of(drift)].drifts.append(drift_facts(drift))
        for ended in found.left_out:
            grouped[SiteEntry(ended.entry, ended.path), ended.machine_id].left_out.append(ended.text)
        facts = {group: one.facts(group[1], uids) for group, one in grouped.items()}
        p_values = [*beside.p_values, *(value for one in facts.values() for value in (*one.believed, *one.doubted))]
        tests = beside.tests + sum(one.tests for one in facts.values())
        return facts, trends.largest_believed(p_values, tests)

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
        told = Told(self.step_facts, self._point, self._with_profile)
        return FindingReader(self._connection, self._query.repo, told).describe(found, detailed)

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
        return self._ran([run for run in queries.runs_of(self._connection, session.id) if session.hunt or not run.hunt])

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
            run_facts(run, missed.get(run.uid, ()), links.get(run.uid), self._subjects.get(run.session_uid, ""))
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
