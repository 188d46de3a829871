"""How many of the newest runs of each history are on a new level, and how far away that is. Many histories at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from curator_bench.verdict.cases import CONFIDENCE, Case
from curator_bench.verdict.levels import Cut, cuts_of
from curator_bench.verdict.newest import FEW, Weighed, weigh
from curator_bench.verdict.noise import (
    BLOCK,
    OUTLIER,
    Effects,
    after,
    before,
    in_batches,
    median,
    rows_may_be_empty,
    table_of,
)
from curator_bench.verdict.tails import Bools, Floats, Ints, t_value

STRETCHES = (1, 2, 3, 4, 5, 6, 8)
"""So many newest runs are held against those before them: a small change shows only after some runs."""
_OF_YOUNG = (10, 11, 12)
"""And so many where there are fewer than `FEW` before: too few to tell levels apart there."""
FEWEST_BEFORE = 5
_OLDEST_BEGINNING = 14
EARLIER = 100
"""So many runs of the levels before tell, too, how a metric scatters."""
TAIL = (1 - CONFIDENCE) / 2


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


def standing(cases: Sequence[Case], newest: Sequence[int]) -> list[tuple[list[Cut], End]]:
    """For each case the cuts between its levels, and what its newest runs say."""
    found: list[tuple[list[Cut], End] | None] = [None] * len(cases)
    for batch in in_batches([len(case.places) for case in cases]):
        table, lengths = table_of([cases[at].places for at in batch])
        effects = effects_of([cases[at] for at in batch])
        counts = np.array([newest[at] for at in batch], dtype=np.intp)
        with rows_may_be_empty():
            cuts = cuts_of(table, lengths, effects)
            kept = [
                [cut for cut in own if cut.index <= length - count - FEWEST_BEFORE]
                for own, length, count in zip(cuts, lengths.tolist(), counts.tolist(), strict=True)
            ]
            starts = np.array([own[-1].index if own else 0 for own in kept], dtype=np.intp)
            ends = _ends_of(table, _scatter(table, lengths, kept), lengths, starts, counts, effects)
        for at, own, end in zip(batch, kept, ends, strict=True):
            found[at] = own, end
    return [one for one in found if one is not None]


def effects_of(cases: Iterable[Case], least: float | None = None) -> Effects:
    """The smallest change that counts in each case: `least`, else as its rules say."""
    found = [(case.rules.min_effect if least is None else least, case.scale.unit is None) for case in cases]
    return Effects(np.array([effect for effect, _ in found]), np.array([is_log for _, is_log in found], dtype=bool))


def _scatter(table: Floats, lengths: Ints, cuts: Sequence[Sequence[Cut]]) -> Floats:
    """The distances of all runs from their levels."""
    scatter = np.full_like(table, np.nan)
    for row, (own, length) in enumerate(zip(cuts, lengths.tolist(), strict=True)):
        for start, end in pairwise([0, *(cut.index for cut in own), length]):
            runs = table[row, start:end]
            scatter[row, start:end] = runs - np.median(runs)
    return scatter


def _ends_of(table: Floats, scatter: Floats, lengths: Ints, starts: Ints, newest: Ints, effects: Effects) -> list[End]:
    """For each row what its newest runs say, of which `newest` belong together; its last level begins at `starts`."""
    best: list[End | None] = [None] * len(lengths)
    zeros = np.zeros_like(starts)
    for count in sorted({*STRETCHES, *_OF_YOUNG, *newest.tolist()}):
        is_asked = newest == count
        known = lengths - count - starts
        is_longer = (newest < count) & (known >= FEWEST_BEFORE)
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
        older = np.maximum(starts[rows], at - BLOCK)
        weighed = weigh(runs_before, runs, effects.of(rows), before(scatter, rows, older, zeros[rows], EARLIER))
        recent = before(table, rows, lengths[rows], starts[rows], _OLDEST_BEGINNING)
        counts = np.where(weighed.holds, _counts(recent, weighed, newest[rows]), count)
        for row, end in zip(rows.tolist(), _ends(weighed, recent, counts), strict=True):
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


def _ends(weighed: Weighed, recent: Floats, counts: Ints) -> list[End]:
    is_new: Bools = np.arange(recent.shape[1], 0, -1) <= counts[:, None]
    since = median(np.where(is_new, recent, np.nan))
    shift = np.where(weighed.holds & (counts <= recent.shape[1]), since - weighed.level, weighed.shift)
    columns = (
        weighed.holds,
        counts,
        np.sum(weighed.noise.kept, axis=1),
        weighed.level,
        shift,
        t_value(TAIL, weighed.noise.freedom) * weighed.error,
        weighed.noise.spread,
        weighed.chance,
        weighed.score,
    )
    return [End(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
