"""Findings of the recorded history: regressions and improvements by their cause, each with a name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from curator_bench.errors import BenchError
from curator_bench.store.all_series import RunPlace
from curator_bench.verdict.findings import Change, Finding, Order, findings
from curator_bench.verdict.judgement import Word
from curator_bench.verdict.step_states import State

if TYPE_CHECKING:
    from curator_bench.causes.judged_history import RecordedStep

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class RecordedFinding:
    """One cause: the steps it explains, and the runs between which it came.

    Its name consists of the word (such as `regression`) and the commit of the first run certainly after it, or the
    start of that run if the last run before has the same commit. Later runs may narrow the range, which changes the
    name. So `names` holds every name that it may have had.
    """

    name: str
    names: frozenset[str]
    word: Word
    state: State | None
    """Open if one of its steps is. None for an improvement."""
    steps: Sequence[RecordedStep]
    """Those of required metrics first, then the largest."""
    before: RunPlace
    """The last run before it, of all runs of its series."""
    after: RunPlace
    """The first run after it."""
    subjects: Sequence[tuple[str, str, str]]
    """Packages under test that changed in between: name, commit or version before and after."""

    @property
    def largest(self) -> RecordedStep:
        return self.steps[0]


def recorded_findings(
    steps: Sequence[RecordedStep], orders: Mapping[str, float], subjects: Mapping[int, Mapping[str, str]]
) -> list[RecordedFinding]:
    """Group steps into findings, oldest first.

    `orders` gives the place of each commit, `subjects` the commits or versions of the packages under test by session.
    """
    changes = [_change(step, orders) for step in steps]
    return [_recorded(one, subjects) for one in findings(changes)]


def changed_subjects(
    subjects: Mapping[int, Mapping[str, str]], before: RunPlace, after: RunPlace
) -> tuple[tuple[str, str, str], ...]:
    """Return the packages under test that differ between two runs: name, commit or version before and after."""
    first, second = (subjects.get(place.session_id, {}) for place in (before, after))
    both = sorted(first.keys() & second.keys())
    return tuple((name, first[name], second[name]) for name in both if first[name] != second[name])


def _change(step: RecordedStep, orders: Mapping[str, float]) -> Change[RecordedStep]:
    found = step.step
    last_before, before, first, first_after = (
        _order(place, orders, index)
        for place, index in (
            (step.last_before, found.last_before),
            (step.before, found.began - 1),
            (step.first, found.began),
            (step.first_after, found.first_after),
        )
    )
    certain = sorted((last_before, first_after))
    metric = step.entry, step.metric
    return Change(step, metric, found.word, certain[0], (before, first), certain[1], found.change)


def _order(place: RunPlace, orders: Mapping[str, float], index: int) -> Order:
    start = place.start.timestamp()
    return (orders.get(place.commit or "", start), start, index)


def _recorded(found: Finding[RecordedStep], subjects: Mapping[int, Mapping[str, str]]) -> RecordedFinding:
    steps = sorted((member.of for member in found.members), key=lambda step: not step.is_required)
    before, after = found.before.of.last_before, found.after.of.first_after
    is_same_commit = after.commit is None or after.commit == before.commit
    name = name_of(found.word, after.start_text if is_same_commit else after.commit or "")
    names = {name_of(found.word, one) for step in steps for one in step.beginnings}
    changed = changed_subjects(subjects, before, after)
    return RecordedFinding(name, frozenset({name, *names}), found.word, _state(steps), steps, before, after, changed)


def name_of(word: Word, beginning: str) -> str:
    """Return the name of a finding that begins with a commit, or at a time."""
    digest = hashlib.sha256(f"{word}\n{beginning}".encode()).hexdigest()
    return f"{word[0]}-{digest[:_DIGITS]}"


def _state(steps: Sequence[RecordedStep]) -> State | None:
    states = {step.state for step in steps}
    return next((state for state in State if state in states), None)


def finding_named(found: Sequence[RecordedFinding], name: str) -> RecordedFinding:
    """Return the finding of this name, or the newest that may have had it. Raises BenchError if there is none."""
    from curator_bench.store.queries import nearest

    named = [one for one in found if name == one.name] or [one for one in found if name in one.names]
    if named:
        return named[-1]
    near = nearest(name, {one.name for one in found})
    advice = "; `curator-bench regressions --all` lists all. A metric is accepted as ENTRY METRIC"
    raise BenchError(f"no finding is named {name!r}{near or advice}")
