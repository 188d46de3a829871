"""Reads the findings of the dashboard: their commits, what else changed, and the values of the worst metric."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from curator_bench.causes.finding_changes import changes_of, commands_for
from curator_bench.causes.findings import RecordedFinding, recorded_findings
from curator_bench.causes.hunted_profiles import hunted_sides
from curator_bench.causes.judged_history import RecordedStep
from curator_bench.causes.sides import Sides
from curator_bench.causes.what_changed import CommitRange, WhatChanged
from curator_bench.causes.wording import text
from curator_bench.cli.dashboard_why import explained, sides_around
from curator_bench.cli.finding_changes import commit_log
from curator_bench.provenance.packages import commits_of_package
from curator_bench.report.site.model import CommitFacts, CommitsFacts, FindingFacts, PointFacts, StepFacts, TrendFacts
from curator_bench.store.all_series import Group, RunPlace, Series, all_series, subject_commits
from curator_bench.store.commit_order import commit_order
from curator_bench.store.queries import EntryKey

if TYPE_CHECKING:
    from sqlalchemy import Connection

_COMMITS_SHOWN = 8
_RUNS_BEFORE = 40
"""The number of runs before a step that its trend shows; it shows all after."""
_POINTS = 120

_Place: TypeAlias = tuple[int, str]
"""The run in which a step began, and its metric."""


def findings_of(connection: Connection, steps: Sequence[RecordedStep]) -> list[RecordedFinding]:
    """Group steps that were judged at different times into findings, newest first."""
    ordered = sorted(steps, key=lambda one: (one.first.start, one.entry, one.metric))
    places = [place for one in ordered for place in (one.before, one.first, one.last_before, one.first_after)]
    orders = commit_order(connection, {place.commit for place in places})
    subjects = subject_commits(connection, {place.session_id for place in places})
    found = recorded_findings(ordered, orders, subjects)
    return sorted(found, key=lambda one: (one.after.start, one.name), reverse=True)


@dataclass(frozen=True, slots=True)
class Told:
    """The functions by which the dashboard tells the parts of findings."""

    step: Callable[[RecordedStep], StepFacts]
    point: Callable[[RunPlace], PointFacts]
    with_profile: Callable[[EntryKey], Collection[str]]
    """The uids of the runs of an entry whose profiles are shown."""


class FindingReader:
    """Describes findings for the dashboard."""

    def __init__(self, connection: Connection, repo: Path | None, told: Told) -> None:
        self._connection, self._repo, self._told = connection, repo, told
        self._steps_known: Sequence[RecordedStep] = ()

    def describe(self, found: Sequence[RecordedFinding], detailed: int) -> list[FindingFacts]:
        """Describe findings. The first ones get commits, what else changed, and the values of the worst metric."""
        trends = self._series([one.largest for one in found[:detailed]])
        changes = changes_of(self._connection, found[:detailed])
        self._steps_known = [step for one in found for step in one.steps]
        return [
            self._facts(one, changes[one.name], trends) if place < detailed else self._brief(one)
            for place, one in enumerate(found)
        ]

    def _brief(self, one: RecordedFinding) -> FindingFacts:
        return FindingFacts(
            name=one.name,
            kind=str(one.word),
            state=None if one.state is None else str(one.state),
            before=self._told.point(one.before),
            first=self._told.point(one.after),
            steps=tuple(map(self._told.step, one.steps)),
        )

    def _facts(self, one: RecordedFinding, changed: WhatChanged, trends: Mapping[_Place, Series]) -> FindingFacts:
        largest = one.largest
        series = trends.get((largest.first.run, largest.metric))
        sides = None if series is None else sides_around(self._connection, series, largest, self._steps_known)
        return replace(
            self._brief(one),
            ranges=tuple(self._range(each) for each in changed.commits),
            changed=tuple(_others(changed)),
            commands=tuple((each.tells, each.text) for each in commands_for(one, changed, commit_log(self._repo))),
            trend=None if series is None else _trend(series, largest),
            why=None if sides is None else explained(self._connection, sides, largest.metric),
            profiled=None if sides is None else self._profiled(sides, changed),
        )

    def _profiled(self, sides: Sides, changed: WhatChanged) -> tuple[str, str] | None:
        """Return the runs next to a change whose profiles are shown; else those of a bisect or an A/B comparison."""
        shown = self._told.with_profile(sides.entry)
        if not shown:
            return None
        hunted = hunted_sides(self._connection, sides.entry, changed, self._repo)
        for one in (sides, *([hunted] if hunted else [])):
            before, after = ([run.uid for run in side if run.uid in shown] for side in (one.before, one.after))
            if before and after:
                return before[-1], after[0]
        return None

    def _range(self, one: CommitRange) -> CommitsFacts:
        commits = commits_of_package(self._repo or Path(), one.of, one.before, one.after)
        known = tuple(CommitFacts(each.sha, each.author, each.subject) for each in (commits or [])[:_COMMITS_SHOWN])
        return CommitsFacts(one.of or None, one.before, one.after, known, len(commits or []) - len(known))

    def _series(self, steps: Sequence[RecordedStep]) -> dict[_Place, Series]:
        """Read the values of these steps' metrics. An entry whose arguments changed has several series."""
        groups = {_group(step) for step in steps}
        found = all_series(self._connection, among=groups) if groups else []
        wanted = {(step.first.run, step.metric) for step in steps}
        return {
            (run, one.metric): one
            for one in found
            for run, metric in wanted
            if metric == one.metric and np.any(one.runs == run)
        }


def _others(changed: WhatChanged) -> list[str]:
    """Word what changed besides commits."""
    others = replace(changed, commits=())
    return [] if changed.commits and others.is_nothing else text(others)


def _group(step: RecordedStep) -> Group:
    return step.entry.name, step.entry.path, step.machine_id


def _trend(series: Series, step: RecordedStep) -> TrendFacts:
    """Return the values around a step and since, as medians of a few runs where there are many."""
    began = int(np.searchsorted(series.starts, step.first.start.timestamp() - 0.001))
    first = max(0, began - _RUNS_BEFORE)
    size = -(-(len(series.values) - first) // _POINTS)
    bounds = range(first, len(series.values), max(size, 1))
    medians = [float(np.median(series.values[start : start + max(size, 1)])) for start in bounds]
    return TrendFacts(tuple(float(f"{one:.5g}") for one in medians), (began - first) // max(size, 1))
