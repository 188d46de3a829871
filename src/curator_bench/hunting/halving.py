"""Finds which of many changes make a benchmark slower, by halving: a pure search, which asks for one set at a time.

A change is a number. It needs others: it can only be made together with them. So what is tried is always a set that
contains whatever its members need, and the changes are numbered so that what is needed comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Judgement(StrEnum):
    GOOD = "good"
    BAD = "bad"
    SKIPPED = "skipped"


Changes: TypeAlias = frozenset[int]
Judge: TypeAlias = Callable[[Changes], Judgement]
"""Tells whether it is, with these changes and no others, as good as before or as bad as after all of them."""


@dataclass(frozen=True, slots=True)
class Guilty:
    """The result of a search."""

    changes: tuple[int, ...] = ()
    """Those that make it bad: one, or several that do only together. The first one found is the first."""
    made: Changes = frozenset()
    """The guilty changes and what they need: the smallest environment that is known to be bad."""
    suspects: tuple[int, ...] = ()
    """If the search ended early: one of these, at least, is guilty, too."""
    is_confirmed: bool = False
    """True if `made` is bad, with no other change. Else others may be guilty with the ones that were found."""


def search(needs: Sequence[Collection[int]], judge: Judge) -> Guilty:
    """Find the guilty changes. Without changes it is good, with all of them it is bad.

    Each round finds one by halving: with those before it, it is still good, and with it, bad. If the ones found so far,
    alone, are not bad, it takes another one to make it bad, which comes before the last one found.
    """
    needed = _closures(needs)
    found, made = list[int](), Changes()
    candidates = list(range(len(needs)))
    while True:
        low, high = _transition(made, candidates, judge)
        if high - low > 1:
            return Guilty(tuple(found), made, tuple(candidates[low:high]))
        guilty, bad = candidates[low], made.union(candidates[:high])
        found.append(guilty)
        made |= needed[guilty]
        judgement = Judgement.BAD if made == bad else judge(made)
        candidates = [one for one in candidates[:low] if one not in made]
        if judgement is Judgement.BAD:
            return Guilty(tuple(found), made, is_confirmed=True)
        if judgement is Judgement.SKIPPED:
            return Guilty(tuple(found), made)


def _transition(made: Changes, candidates: Sequence[int], judge: Judge) -> tuple[int, int]:
    """Return two counts of candidates, next to each other unless some cannot be judged: still good, and bad."""
    low, high, skipped = 0, len(candidates), set[int]()
    while between := [count for count in range(low + 1, high) if count not in skipped]:
        middle = min(between, key=lambda count: abs(2 * count - low - high))
        judgement = judge(made.union(candidates[:middle]))
        if judgement is Judgement.BAD:
            high = middle
        elif judgement is Judgement.GOOD:
            low = middle
        else:
            skipped.add(middle)
    return low, high


def _closures(needs: Sequence[Collection[int]]) -> list[Changes]:
    """Return each change with all it needs, directly or not."""
    found = list[Changes]()
    for number, others in enumerate(needs):
        found.append(Changes({number}).union(*(found[other] for other in others)))
    return found
