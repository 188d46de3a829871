"""Dividing work among those that do it side by side, so that all end at about the same time.

Longest first, and then the fullest share gives to others until it cannot become shorter: the problem is hard, but the
result is as a rule within a thousandth of the best possible, which `shortest_end` bounds from below.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Sequence

Share = list[int]
"""The places of some durations in their list, the longest first."""

_GOOD_ENOUGH = 1.0005
_MOST_EXCHANGES = 2_000


def longest_first(durations: Sequence[float]) -> Share:
    """Return the order in which a queue ends soonest."""
    return sorted(range(len(durations)), key=lambda place: -durations[place])


def shortest_end(durations: Sequence[float], shares: int) -> float:
    """Return a time before which no division into so many shares can end."""
    longest = sorted(durations, reverse=True)
    of_two = longest[shares - 1] + longest[shares] if len(longest) > shares else 0.0  # a share has two of these
    return max(sum(durations) / shares, longest[0] if longest else 0.0, of_two)


def divide(durations: Sequence[float], shares: int) -> list[Share]:
    """Divide the durations into shares whose longest sum is as short as possible. Some shares may be empty."""
    divided: list[Share] = [[] for _ in range(shares)]
    ends = [(0.0, number) for number in range(shares)]
    for place in longest_first(durations):
        end, number = ends[0]
        divided[number].append(place)
        heapq.heapreplace(ends, (end + durations[place], number))
    _exchange(divided, durations)
    for share in divided:
        share.sort(key=lambda place: -durations[place])
    return divided


def fewest_shares(durations: Sequence[float], limit: float) -> list[Share]:
    """Divide into as few shares as fit below a limit. A duration above it gets a share of its own."""
    too_long = [[place] for place, duration in enumerate(durations) if duration > limit]
    rest = [place for place, duration in enumerate(durations) if duration <= limit]
    fitting = [durations[place] for place in rest]
    number = max(1, int(sum(fitting) / limit)) if fitting else 0
    while fitting:
        divided = divide(fitting, number)
        if max(sum(fitting[place] for place in share) for share in divided) <= limit:
            return too_long + [[rest[place] for place in share] for share in divided]
        number += 1
    return too_long


def _exchange(divided: list[Share], durations: Sequence[float]) -> None:
    """Let the fullest share move work to others, or exchange it for shorter work, while that helps."""
    sums = [sum(durations[place] for place in share) for share in divided]
    enough = _GOOD_ENOUGH * shortest_end(durations, len(divided)) if durations else 0.0
    for _ in range(_MOST_EXCHANGES):
        fullest = max(range(len(divided)), key=sums.__getitem__)
        if sums[fullest] <= enough:
            return
        for other in sorted(range(len(divided)), key=sums.__getitem__):
            found = _best_exchange(divided[fullest], divided[other], durations, sums[fullest] - sums[other])
            if found is not None:
                break
        else:
            return
        given, taken = found
        _move(given, divided[fullest], divided[other])
        if taken is not None:
            _move(taken, divided[other], divided[fullest])
        gain = durations[given] - (durations[taken] if taken is not None else 0.0)
        sums[fullest] -= gain
        sums[other] += gain


def _best_exchange(
    fuller: Share, other: Share, durations: Sequence[float], difference: float
) -> tuple[int, int | None] | None:
    """Return what to give and what to take for it, so that the two come closest; None if nothing brings them closer."""
    takes: list[int | None] = [None, *sorted(other, key=durations.__getitem__)]
    lengths = [0.0, *(durations[place] for place in takes[1:] if place is not None)]
    best, best_gain = None, 0.0
    for given in fuller:
        wanted = durations[given] - difference / 2
        at = bisect_left(lengths, wanted)
        for number in (at - 1, at):
            if 0 <= number < len(takes):
                moved = durations[given] - lengths[number]
                gain = min(moved, difference - moved)
                if gain > best_gain * (1 + 1e-12) + 1e-12:
                    best, best_gain = (given, takes[number]), gain
    return best


def _move(place: int, source: Share, target: Share) -> None:
    source.remove(place)
    target.append(place)
