"""Finds what changed around the regressions that the gates of a session found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from curator_bench.causes import wording
from curator_bench.causes.judged_history import Query, judge_history
from curator_bench.causes.recorded import facts_of
from curator_bench.causes.what_changed import WhatChanged, what_changed
from curator_bench.cli import tables
from curator_bench.cli.finding_changes import commit_log
from curator_bench.verdict.judgement import Word
from curator_bench.words import printable

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from curator_bench.causes.judged_history import RecordedStep
    from curator_bench.store.queries import MissedRequirement, PastRun

_GATE = "max_regression"


@dataclass(frozen=True, slots=True)
class SessionChange:
    """A regression that a gate of the session found, and what changed there."""

    step: RecordedStep
    changed: WhatChanged

    @property
    def lines(self) -> Iterator[str]:
        one = self.step
        head = f"what changed before {one.entry.name} {one.metric} {tables.change(one.step.change)}"
        yield printable(f"{head}, since {one.first.session}:")
        yield from (f"    {line}" for line in wording.text(self.changed, commit_log(None)))

    @property
    def document(self) -> dict[str, Any]:
        one = self.step
        return {
            "entry": one.entry.name,
            "path": one.entry.path,
            "metric": one.metric,
            "machine": one.machine_id,
            "since": one.first.session,
            "changed": wording.document(self.changed),
        }


def changes_of_session(
    connection: Connection, runs: Sequence[PastRun], missed: Mapping[str, Sequence[MissedRequirement]]
) -> list[SessionChange]:
    """Return the latest regression of each metric whose gate failed, as the history shows it by the end of the session.

    Only the histories of these entries are read.
    """
    failed = {
        (run.entry.name, run.entry.path, run.machine_id, gate.metric)
        for run in runs
        for gate in missed.get(run.uid, ())
        if gate.bound == _GATE and not gate.is_inconclusive
    }
    if not failed:
        return []
    found = judge_history(connection, Query(), {group[:3] for group in failed})
    latest = {
        key: step
        for step in found.steps
        if (key := (step.entry.name, step.entry.path, step.machine_id, step.metric)) in failed
        and step.step.word is Word.REGRESSION
        and step.first.start <= runs[-1].start
    }
    facts = facts_of(connection, {place.run for step in latest.values() for place in (step.last_before, step.first)})
    return [
        SessionChange(step, what_changed(facts[step.last_before.run], facts[step.first.run]))
        for step in latest.values()
    ]
