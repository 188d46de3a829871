"""Groups steps into findings. A finding is one cause: all metrics that became slower, or faster, in overlapping ranges.

The range of a step reaches from the last run certainly before it to the first run certainly after it. The range of a
finding is the overlap of the ranges of all its steps. So two steps whose ranges do not overlap are never one finding,
even if a third overlaps with both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from curator_bench.verdict.judgement import Word

Order: TypeAlias = tuple[float, ...]
"""Place of a run in the order of all runs: by its commit, then by time among the runs of a commit."""
Of = TypeVar("Of")


@dataclass(frozen=True, slots=True)
class Change(Generic[Of]):
    """A step of one metric of one entry on one machine; `of` is the caller's key.

    Its range is after `before`, up to `after`.
    """

    of: Of
    metric: Hashable
    """Equal for the same metric of the same entry."""
    word: Word
    before: Order
    """The last run certainly before the step."""
    likely: tuple[Order, Order]
    """The most likely last run before the step, and the most likely first run after it."""
    after: Order
    """The first run certainly after it."""
    size: float
    """The change as a fraction."""


@dataclass(frozen=True, slots=True)
class Finding(Generic[Of]):
    """One cause, and all it explains."""

    word: Word
    before: Change[Of]
    """The member with the latest `before`: the cause came after that run."""
    after: Change[Of]
    """The member with the earliest `after`: the cause was there by that run."""
    members: tuple[Change[Of], ...]
    """The largest first."""


@dataclass(frozen=True, slots=True)
class _Together(Generic[Of]):
    """Changes whose ranges overlap, with their common range."""

    members: tuple[Change[Of], ...]
    before: Order
    after: Order
    likely: tuple[Order, Order]


def findings(changes: Iterable[Change[Of]]) -> list[Finding[Of]]:
    """Group changes into as few findings as possible, in the order of their ranges.

    Steps of one metric on several machines are grouped first, because each machine narrows the range of the others.
    """
    by_metric: dict[tuple[Word, Hashable], list[_Together[Of]]] = {}
    for change in changes:
        by_metric.setdefault((change.word, change.metric), []).append(_together([change]))
    by_word: dict[Word, list[_Together[Of]]] = {}
    for (word, _), own in by_metric.items():
        by_word.setdefault(word, []).extend(_groups(own))
    found = [_finding(group.members) for same in by_word.values() for group in _groups(same)]
    return sorted(found, key=lambda one: (one.after.after, one.word))


def _finding(members: Sequence[Change[Of]]) -> Finding[Of]:
    return Finding(
        members[0].word,
        max(members, key=lambda one: one.before),
        min(members, key=lambda one: one.after),
        tuple(sorted(members, key=lambda one: -abs(one.size))),
    )


def _together(members: Sequence[Change[Of]]) -> _Together[Of]:
    before, after = max(one.before for one in members), min(one.after for one in members)
    likely = max(one.likely[0] for one in members), min(one.likely[1] for one in members)
    return _Together(tuple(members), before, after, likely if likely[0] < likely[1] else (before, after))


def _groups(parts: Sequence[_Together[Of]]) -> list[_Together[Of]]:
    """Group ranges that overlap, in as few groups as possible.

    A range that begins where the last group ends, or later, begins a new group; its end lies in all ranges of that
    group. A range that fits several groups joins the one nearest to the most likely place of its change.
    """
    firsts: list[_Together[Of]] = []
    for part in sorted(parts, key=lambda one: (one.after, one.likely)):
        if not firsts or part.before >= firsts[-1].after:
            firsts.append(part)
    ends = [one.after for one in firsts]
    ranks = {place: rank for rank, place in enumerate(sorted({place for one in parts for place in one.likely}))}
    members: list[list[Change[Of]]] = [[] for _ in firsts]
    for part in parts:
        fitting = range(bisect_right(ends, part.before), bisect_right(ends, part.after))
        apart = [_apart(firsts[group].likely, part.likely, ranks) for group in fitting]
        members[fitting[apart.index(min(apart))]].extend(part.members)
    return [_together(own) for own in members]


def _apart(one: tuple[Order, Order], other: tuple[Order, Order], ranks: Mapping[Order, int]) -> int:
    """Return the distance between two ranges; if they overlap, minus the length of the overlap."""
    return max(ranks[one[0]], ranks[other[0]]) - min(ranks[one[1]], ranks[other[1]])
