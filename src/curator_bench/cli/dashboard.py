"""Reads runs, sessions and judgements from a database for the dashboard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from curator_bench.cli.comparison import Sides, compare_sides
from curator_bench.cli.judged_history import JudgedHistory, JudgedSeries, Query, RecordedStep, judge_history
from curator_bench.cli.show import said
from curator_bench.metric_names import is_secondary
from curator_bench.report.site.model import (
    ComparedFacts,
    Directions,
    DriftFacts,
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
from curator_bench.store.measured import Measured, measured, of_other_sessions, only
from curator_bench.store.queries import EntryKey, PastRun, PastSession
from curator_bench.store.records import InvocationRecord
from curator_bench.values import Subject
from curator_bench.verdict.direction import better_of

if TYPE_CHECKING:
    from sqlalchemy import Connection


class RecordedHistory:
    """The history in one database. Its connection must stay open."""

    def __init__(self, connection: Connection, query: Query, sessions: Sequence[PastSession]) -> None:
        """`sessions` are shown, oldest first. Changes that began with the last one are new."""
        self._connection, self._query, self._past = connection, query, sessions

    @cached_property
    def _facts(self) -> dict[int, SessionFacts]:
        subjects = dashboard_queries.subjects_by_session(self._connection, self._past)
        invocations = dashboard_queries.invocations_by_session(self._connection, self._past)
        return {one.id: _session(one, subjects.get(one.id, ()), invocations.get(one.id, ())) for one in self._past}

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
    def _missed(self) -> Mapping[str, Sequence[queries.MissedRequirement]]:
        return dashboard_queries.missed_by_run(self._connection)

    @cached_property
    def _links(self) -> Mapping[str, Mapping[str, Any]]:
        return dashboard_queries.links_by_run(self._connection)

    @cached_property
    def _newest_that_ran(self) -> int | None:
        """The newest session with runs. A session in which nothing was selected does not count."""
        return next((one.id for one in reversed(self._past) if one.verdicts), None)

    def sessions(self) -> Sequence[SessionFacts]:
        return list(self._facts.values())

    def entries(self) -> Sequence[SiteEntry]:
        return [SiteEntry(one.key.name, one.key.path) for one in queries.known_entries(self._connection)]

    def runs(self, entry: SiteEntry) -> Sequence[RunFacts]:
        return [self._run(run) for run in queries.history(self._connection, EntryKey(entry.name, entry.path))]

    def everything(self) -> JudgedHistory:
        """Return the judgement of the whole database."""
        return self._judged

    def steps(self) -> Sequence[StepFacts]:
        return [self._step(one) for one in self._judged.steps]

    def drifts(self) -> Sequence[DriftFacts]:
        return [
            DriftFacts(
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
            for one in self._judged.drifts
        ]

    def series(self) -> Sequence[SeriesFacts]:
        return [_series(one) for one in self._judged.series]

    def compared(self, a: SessionFacts, b: SessionFacts) -> Sequence[ComparedFacts]:
        """Compare two sessions in the same way as `curator-bench compare`."""
        in_a, in_b = {self._ids[a.uid]}, {self._ids[b.uid]}
        after = only(self._measured, in_b)
        known = {measure: self._measured[measure] for measure in after}
        sides = Sides(only(known, in_a), after, of_other_sessions(known, in_b, in_a), self._declared, self._required)
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
        runs = [run for run in queries.runs_of(self._connection, session) if session.hunt or not run.hunt]
        return [(SiteEntry(run.entry.name, run.entry.path), self._run(run)) for run in runs]

    def directions(self, entry: SiteEntry, metrics: Sequence[str]) -> Directions:
        found = {
            name: better_of(name, self._declared.get((entry.name, entry.path, name)), self._query.better)
            for name in metrics
        }
        known = {name: str(better) for name, better in found.items() if better}
        beside = frozenset(name for name in metrics if is_secondary(name, metrics))
        return Directions(known, beside, self._required.get((entry.name, entry.path), ()))

    def _run(self, run: PastRun) -> RunFacts:
        return RunFacts(
            **{name: getattr(run, name) for name in _SAME},
            machine=run.machine_id,
            definition=run.definition_hash,
            duration=run.measured_s,
            missed=[said(one) for one in self._missed.get(run.uid, ()) if not one.is_inconclusive],
            inconclusive=[said(one) for one in self._missed.get(run.uid, ()) if one.is_inconclusive],
            links=_texts(self._links.get(run.uid)),
        )

    def _step(self, one: RecordedStep) -> StepFacts:
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
            subjects=one.subjects,
        )

    def _point(self, place: RunPlace) -> PointFacts:
        known = self._facts.get(place.session_id)
        return PointFacts(place.session, known.slug if known else None, place.commit, place.start)


def _series(one: JudgedSeries) -> SeriesFacts:
    starts, newest = one.series.starts, one.newest
    levels = [
        LevelFacts(_moment(starts[level.start]), _moment(starts[level.end - 1]), level.middle, level.noise)
        for level in one.course.levels
    ]
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
