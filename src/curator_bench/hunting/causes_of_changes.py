"""Finds all causes among many changes, one after the other: a pure search, which asks for one comparison at a time.

A cause is a change that is guilty alone, or several that are only together. After each cause that is found, it is
looked for another one between the changes that are known to be guilty and all changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from curator_bench.hunting.halving import NOTHING, Changes, Guilty, Judgement, closures, search

MOST_CAUSES = 4


@dataclass(frozen=True, slots=True)
class Cause:
    """Guilty changes. What they do is the difference between two sets of changes."""

    changes: tuple[int, ...]
    before: Changes = NOTHING
    after: Changes = NOTHING
    """With them and what they need."""


@dataclass(frozen=True, slots=True)
class Causes:
    """The result of a search."""

    found: tuple[Cause, ...] = ()
    unfinished: Guilty = field(default_factory=Guilty)
    """The last search, if it could not name another cause for certain."""
    is_all: bool | None = None
    """True if they explain the whole difference; None if that is not known."""


class Measuring(Protocol):
    """Measures sets of changes."""

    def judge(self, changes: Changes, base: Changes) -> Judgement:
        """Tell whether it is as good as with the base, or as bad as with all changes."""

    def is_worse(self, before: Changes, after: Changes) -> bool | None:
        """Tell whether the second set is worse than the first; None if that is not certain."""


def search_causes(needs: Sequence[Collection[int]], measuring: Measuring) -> Causes:
    """Find the causes. Without changes it is good, with all of them it is bad."""
    everything, base = Changes(range(len(needs))), NOTHING
    found = list[Cause]()
    while True:
        guilty = _search(needs, measuring, base)
        if not guilty.is_confirmed:
            return Causes(tuple(found), guilty, False if found else None)
        found += _separated(guilty, base, closures(needs), measuring)
        base = guilty.made
        is_worse = base != everything and measuring.is_worse(base, everything)
        if not is_worse or len(found) >= MOST_CAUSES:
            return Causes(tuple(found), is_all=None if is_worse is None else not is_worse)


def _search(needs: Sequence[Collection[int]], measuring: Measuring, base: Changes) -> Guilty:
    return search(needs, lambda changes: measuring.judge(changes, base), base)


def _separated(guilty: Guilty, base: Changes, needed: Sequence[Changes], measuring: Measuring) -> Iterator[Cause]:
    """Yield the causes among changes that are as bad as all of them together: some may be guilty alone, too.

    Each of several causes may be too small to be as bad as all, and so is only found together with others.
    """
    if len(guilty.changes) == 1:
        yield Cause(guilty.changes, base, guilty.made)
        return
    alone = [one for one in guilty.changes if measuring.is_worse(base, base | needed[one])]
    yield from (Cause((one,), base, base | needed[one]) for one in alone)
    together = tuple(one for one in guilty.changes if one not in alone)
    before = base.union(*(needed[one] for one in alone))
    if together and not (alone and measuring.is_worse(before, guilty.made) is False):
        yield Cause(together, before, guilty.made)
