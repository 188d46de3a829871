"""How many of the newest runs of each history are on a new level, and how far away that is. Many histories at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from curator_bench.verdict.newest import FEW, Weighed, weigh
from curator_bench.verdict.noise import BLOCK, OUTLIER, Effects, after, before, median
from curator_bench.verdict.tails import Bools, Floats, Ints, t_value

STRETCHES = (1, 2, 3, 4, 5, 6)
"""So many newest runs are held against those before them: a small change shows only after some runs."""
_OF_YOUNG = (8, 10, 12)
"""And so many where there are fewer than `FEW` before: too few to tell levels apart there."""
_FEWEST_BEFORE = 5
_OLDEST_BEGINNING = 14


@dataclass(frozen=True, slots=True)
class End:
    """What the newest runs of one history say."""

    holds: bool
    """They are on a new level."""
    count: int
    """How many runs are there; else how many were asked about."""
    history: int
    """How many runs the level before stands on."""
    level: float
    shift: float
    reach: float
    """How far from `shift` the true one may be."""
    noise: float
    chance: float
    """Score of the chance that scatter alone explains them."""
    score: float
    """The same with outliers among the explanations."""


def ends_of(table: Floats, lengths: Ints, starts: Ints, newest: Ints, effects: Effects, tail: float) -> list[End]:
    """For each row what its newest runs say, of which `newest` belong together; its last level begins at `starts`.

    `tail` is the chance that the true shift is beyond the reach, on each side.
    """
    best: list[End | None] = [None] * len(lengths)
    for count in sorted({*STRETCHES, *_OF_YOUNG, *newest.tolist()}):
        is_asked = newest == count
        known = lengths - count - starts
        is_longer = (newest < count) & (known >= _FEWEST_BEFORE)
        if count in _OF_YOUNG:
            is_longer &= (starts == 0) & (known < FEW)
        elif count not in STRETCHES:
            is_longer &= False
        rows = np.flatnonzero(is_asked | is_longer)
        if not len(rows):
            continue
        at, size = lengths[rows] - count, min(count, BLOCK)
        runs_before = before(table, rows, at, starts[rows], BLOCK)
        runs = after(table, rows, lengths[rows] - size, lengths[rows], size)
        weighed = weigh(runs_before, runs, effects.of(rows))
        recent = before(table, rows, lengths[rows], starts[rows], _OLDEST_BEGINNING)
        counts = np.where(weighed.holds, _counts(recent, weighed, newest[rows]), count)
        for row, end in zip(rows.tolist(), _ends(weighed, recent, counts, tail), strict=True):
            other = best[row]
            if other is None or (end.holds and (not other.holds or end.score > other.score)):
                best[row] = end
    return [end for end in best if end is not None]


def _counts(recent: Floats, weighed: Weighed, newest: Ints) -> Ints:
    """Of how many last runs it is clearest that they are nearer to the new level than to the one before."""
    distances = (recent - weighed.level[:, None]) * weighed.sign[:, None]
    shift = np.abs(weighed.shift)[:, None]
    most = np.maximum(shift, OUTLIER * weighed.noise.spread[:, None]) ** 2
    nearer = np.minimum(distances**2, most) - np.minimum((distances - shift) ** 2, most)
    evidence = np.cumsum(np.nan_to_num(nearer[:, ::-1], nan=-np.inf), axis=1)
    possible = np.arange(1, recent.shape[1] + 1) >= newest[:, None]
    counts: Ints = np.argmax(np.where(possible, evidence, -np.inf), axis=1) + 1
    return np.maximum(counts, newest)


def _ends(weighed: Weighed, recent: Floats, counts: Ints, tail: float) -> list[End]:
    is_new: Bools = np.arange(recent.shape[1], 0, -1) <= counts[:, None]
    since = median(np.where(is_new, recent, np.nan))
    shift = np.where(weighed.holds & (counts <= recent.shape[1]), since - weighed.level, weighed.shift)
    columns = (
        weighed.holds,
        counts,
        np.sum(weighed.noise.kept, axis=1),
        weighed.level,
        shift,
        t_value(tail, weighed.noise.freedom) * weighed.error,
        weighed.noise.spread,
        weighed.chance,
        weighed.score,
    )
    return [End(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
