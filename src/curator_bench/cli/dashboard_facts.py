"""Describes what was recorded for the pages of the dashboard: runs, sessions, and the judgement of an entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from curator_bench.causes.judged_history import JudgedSeries, RecordedDrift
from curator_bench.cli.heat import cells_of
from curator_bench.cli.show import said
from curator_bench.report.site.model import (
    DriftFacts,
    Group,
    GroupFacts,
    InvocationFacts,
    LevelFacts,
    RunFacts,
    SeriesFacts,
    SessionFacts,
    SiteEntry,
    StepFacts,
)
from curator_bench.store.past_sessions import PastSession
from curator_bench.store.queries import EntryKey, MissedRequirement, PastRun
from curator_bench.store.records import InvocationRecord
from curator_bench.store.run_marks import Block
from curator_bench.values import Subject
from curator_bench.verdict.judgement import Trend


@dataclass(slots=True)
class GroupJudgement:
    """The judgements of one entry on one machine."""

    series: list[JudgedSeries] = field(default_factory=list)
    trends: list[Trend] = field(default_factory=list)
    steps: list[StepFacts] = field(default_factory=list)
    recorded: list[Any] = field(default_factory=list)
    drifts: list[DriftFacts] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def facts(self, machine: str | None, uids: Mapping[int, str]) -> GroupFacts:
        return GroupFacts(
            machine=machine,
            series=tuple(map(series_facts, self.series)),
            steps=tuple(self.steps),
            drifts=tuple(self.drifts),
            recorded=tuple(self.recorded),
            left_out=tuple(self.left_out),
            believed=tuple(step.p_value for trend in self.trends for step in trend.steps),
            doubted=tuple(value for trend in self.trends for value in trend.doubted),
            tests=sum(trend.is_tested for trend in self.trends),
            cells=cells_of(self.series, uids),
        )


class _OfGroup(Protocol):
    @property
    def entry(self) -> EntryKey: ...
    @property
    def machine_id(self) -> str | None: ...


def group_of(one: _OfGroup) -> Group:
    return SiteEntry(one.entry.name, one.entry.path), one.machine_id


def runs_in_place(block: Block, runs: Sequence[RunFacts]) -> Sequence[RunFacts]:
    """Add to each run that is not drawn at its start the time at which it is drawn."""
    if not block.moved:
        return runs
    places = [None if (moved := block.moved.get(run)) is None else moment_of(moved) for run in block.runs]
    return [replace(run, place=place) for run, place in zip(runs, places, strict=True)]


def run_facts(
    run: PastRun, missed: Sequence[MissedRequirement], links: Mapping[str, Any] | None, subjects: str
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


def drift_facts(one: RecordedDrift) -> DriftFacts:
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


def series_facts(one: JudgedSeries) -> SeriesFacts:
    starts, newest = one.series.starts, one.newest
    levels = tuple(
        LevelFacts(moment_of(starts[level.start]), moment_of(starts[level.end - 1]), level.middle, level.noise)
        for level in one.trend.levels
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


def moment_of(seconds: float) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)


_SAME = (
    *("uid", "session", "session_uid", "verdict", "attempt", "start", "error", "log_path", "commit"),
    *("branch", "metrics"),
)
MEASURED_WITH = ("packages", "environment", "configuration")
"""The kinds of circumstances that two sessions are compared by; the machine is recorded with the invocation, too."""
_OF_EVERY_CAPTURE = frozenset(
    {"schema_version", "captured_at", "boot_id", "load_average", "session_commit", "subjects"}
)
"""Facts that differ between any two captures, or are shown elsewhere."""


def session_facts(past: PastSession, subjects: Sequence[Subject], invoked: Sequence[InvocationRecord]) -> SessionFacts:
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
