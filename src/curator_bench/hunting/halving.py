"""Finds which of many changes make a benchmark slower, by halving: a pure search, which asks for one set at a time.

A change is a number. It needs others: it can only be made together with them. So what is tried is always a set that
contains whatever its members need, and the changes are numbered so that what is needed comes first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

_MOST_SKIPPED = 3
"""So many that cannot be judged, in each of two orders, end the search."""


class Judgement(StrEnum):
    GOOD = "good"
    BAD = "bad"
    SKIPPED = "skipped"


Changes: TypeAlias = frozenset[int]
NOTHING: Changes = frozenset()
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


def search(needs: Sequence[Collection[int]], judge: Judge, given: Changes = NOTHING) -> Guilty:
    """Find the guilty changes. With those that are given it is good, with all of them it is bad.

    Each round finds one by halving: with those before it, it is still good, and with it, bad. If the ones found so far,
    alone, are not bad, it takes another one to make it bad, which comes before the last one found.
    """
    needed, judge = closures(needs), functools.cache(judge)
    found, made = list[int](), given
    candidates = [one for one in range(len(needs)) if one not in given]
    while True:
        candidates, low, high = _transition(made, candidates, needed, judge)
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


def _transition(
    made: Changes, candidates: Sequence[int], needed: Sequence[Changes], judge: Judge
) -> tuple[list[int], int, int]:
    """Return the candidates in some order, and two counts of them: with so many it is still good, and bad.

    The counts are next to each other unless what is between cannot be judged. If that happens a few times, the
    candidates between are tried in the reverse order: changes may need others without saying so.
    """
    order, low, high = list(candidates), 0, len(candidates)
    skipped, is_reversed = set[int](), False
    while between := [count for count in range(low + 1, high) if count not in skipped]:
        if len(skipped) >= _MOST_SKIPPED and is_reversed:
            break
        middle = min(between, key=lambda count: abs(2 * count - low - high))
        judgement = judge(made.union(order[:middle]))
        if judgement is Judgement.SKIPPED:
            skipped.add(middle)
        elif judgement is Judgement.BAD:
            high, skipped, is_reversed = middle, set(), False
        else:
            low, skipped, is_reversed = middle, set(), False
        if not is_reversed and (len(skipped) >= _MOST_SKIPPED or (skipped and len(skipped) == high - low - 1)):
            order[low:high] = _reversed(order[low:high], needed)
            skipped, is_reversed = set(), True
    return order, low, high


def _reversed(candidates: Sequence[int], needed: Sequence[Changes]) -> list[int]:
    """Return the last candidate first, but after those that it needs."""
    found = dict[int, None]()
    for one in reversed(candidates):
        found |= dict.fromkeys(other for other in candidates if other in needed[one])
    return list(found)


def closures(needs: Sequence[Collection[int]]) -> list[Changes]:
    """Return each change with all it needs, directly or not."""
    found = list[Changes]()
    for number, others in enumerate(needs):
        found.append(Changes({number}).union(*(found[other] for other in others)))
    return found
