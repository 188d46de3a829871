"""Groups steps into findings. A finding is one cause: what became slower, or faster, in ranges of commits that overlap.

A range reaches from the last run that is certainly before a step to the first that is certainly after it. The range of
a finding is what the ranges of all its steps have in common. So two steps whose ranges do not overlap are never one
finding, even if a third overlaps with both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from curator_bench.verdict.judgement import Word

Order: TypeAlias = tuple[float, ...]
"""Place of a run in the order of all runs: that of its commit first, then what tells runs of one commit apart."""
Of = TypeVar("Of")


@dataclass(frozen=True, slots=True)
class Change(Generic[Of]):
    """A step of one metric of one entry on one machine; `of` is what the caller knows it by.

    Its range begins after `before` and ends with `after`, which is later.
    """

    of: Of
    word: Word
    before: Order
    """The last run certainly before the step."""
    likely: Order
    """The first run after it, most likely."""
    after: Order
    """The first run certainly after it."""
    size: float
    """The change as a fraction."""


@dataclass(frozen=True, slots=True)
class Finding(Generic[Of]):
    """One cause, and all it explains."""

    word: Word
    before: Change[Of]
    """The member whose last run before is the latest: the cause came after that run."""
    after: Change[Of]
    """The member whose first run after is the earliest: the cause was there by then."""
    members: tuple[Change[Of], ...]
    """The largest first."""


def findings(changes: Iterable[Change[Of]]) -> list[Finding[Of]]:
    """Group changes into as few findings as possible, in the order of their ranges."""
    by_word: dict[Word, list[Change[Of]]] = {}
    for change in changes:
        by_word.setdefault(change.word, []).append(change)
    found = [_finding(group) for same in by_word.values() for group in _groups(same)]
    return sorted(found, key=lambda one: (one.after.after, one.word))


def _finding(members: Sequence[Change[Of]]) -> Finding[Of]:
    return Finding(
        members[0].word,
        max(members, key=lambda one: one.before),
        min(members, key=lambda one: one.after),
        tuple(sorted(members, key=lambda one: -abs(one.size))),
    )


def _groups(changes: Sequence[Change[Of]]) -> list[list[Change[Of]]]:
    """Groups of changes whose ranges have a place in common, as few as possible.

    Each range that begins where the last group ends, or later, begins a group: its end is the place that all ranges of
    the group contain. A range that contains the places of several groups joins the one whose first member is nearest.
    """
    firsts: list[Change[Of]] = []
    for change in sorted(changes, key=lambda one: (one.after, one.likely)):
        if not firsts or change.before >= firsts[-1].after:
            firsts.append(change)
    ends = [one.after for one in firsts]
    ranks = {place: rank for rank, place in enumerate(sorted({one.likely for one in changes}))}
    groups: list[list[Change[Of]]] = [[] for _ in firsts]
    for change in changes:
        fitting = range(bisect_right(ends, change.before), bisect_right(ends, change.after))
        apart = [abs(ranks[firsts[group].likely] - ranks[change.likely]) for group in fitting]
        groups[fitting[apart.index(min(apart))]].append(change)
    return groups
