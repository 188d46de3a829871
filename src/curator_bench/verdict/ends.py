"""Find the newest runs of each history that are on a new level, and its distance. Many histories at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from curator_bench.verdict.cases import Case, History, case_of
from curator_bench.verdict.distributions import Bools, Floats, Ints
from curator_bench.verdict.levels import Cut, cuts_of
from curator_bench.verdict.newest import FEW, Weighed, weigh
from curator_bench.verdict.noise import (
    BLOCK,
    OUTLIER,
    Effects,
    before,
    in_batches,
    median,
    middle,
    rows_may_be_empty,
    table_of,
)

STRETCHES = (1, 2, 3, 4, 5, 6, 8)
"""Numbers of newest runs to compare with the runs before them: a small change shows only after several runs."""
_OF_YOUNG = (10, 11, 12)
"""The same with fewer than `FEW` runs before, which are too few to tell levels apart."""
FEWEST_BEFORE = 5
_OLDEST_BEGINNING = 14
_RECENT = 200
"""A history is restless if its last level has fewer runs."""
EARLIER = 100
"""The number of runs of earlier levels that also count for the noise."""


class End(NamedTuple):
    """The result for the newest runs of one history: `runs`, and the columns of `Weighed`."""

    runs: int
    """The number of runs on the new level; without one, the number of runs in question."""
    holds: bool
    history: int
    level: float
    shift: float
    reach: float
    noise: float
    chance: float
    score: float


Segmentation: TypeAlias = tuple[list[Cut], End]
"""The cuts between the levels of a history, and the result of its newest runs."""


def segmentations(histories: Sequence[History]) -> list[Segmentation | None]:
    """Return the segmentation of each history; None if it is too short. `trends` and `drifts` both need it."""
    cases = [case_of(np.asarray(one.values, dtype=np.float64), one.rules) for one in histories]
    rows = [at for at, case in enumerate(cases) if len(case.places) > FEWEST_BEFORE and case.rules.better is not None]
    found: list[Segmentation | None] = [None] * len(histories)
    for at, one in zip(rows, cuts_and_ends([cases[at] for at in rows], [1] * len(rows)), strict=True):
        found[at] = one
    return found


def cuts_and_ends(cases: Sequence[Case], newest: Sequence[int]) -> list[Segmentation]:
    """For each case, return the cuts between its levels and the result of its newest runs."""
    found: list[Segmentation | None] = [None] * len(cases)
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
            restless = starts >= np.maximum(lengths - _RECENT, 1)
            ends = _ends_of(table, _scatter(table, lengths, kept), lengths, starts, counts, effects, restless)
        for at, own, end in zip(batch, kept, ends, strict=True):
            found[at] = own, end
    return [one for one in found if one is not None]


def effects_of(cases: Iterable[Case], least: float | None = None) -> Effects:
    """Return the smallest change that counts in each case: `least`, else that of its rules."""
    found = [(case.rules.min_effect if least is None else least, case.scale.unit is None) for case in cases]
    return Effects(np.array([effect for effect, _ in found]), np.array([is_log for _, is_log in found], dtype=bool))


def _scatter(table: Floats, lengths: Ints, cuts: Sequence[Sequence[Cut]]) -> Floats:
    """Return the distances of all runs from their levels."""
    scatter = np.full_like(table, np.nan)
    for row, (own, length) in enumerate(zip(cuts, lengths.tolist(), strict=True)):
        for start, end in pairwise([0, *(cut.index for cut in own), length]):
            runs = table[row, start:end]
            scatter[row, start:end] = runs - middle(runs)
    return scatter


def _ends_of(
    table: Floats, scatter: Floats, lengths: Ints, starts: Ints, newest: Ints, effects: Effects, restless: Bools
) -> list[End]:
    """Judge each row's newest runs, of which `newest` belong together. Its last level begins at `starts`."""
    rows, counts = _stretches(lengths - starts, starts, newest)
    at, lasting = lengths[rows] - counts, np.minimum(counts, BLOCK)
    level_runs = before(table, rows, at, starts[rows], BLOCK)
    runs = before(table, rows, lengths[rows], lengths[rows] - lasting, int(lasting.max()))
    earlier = before(scatter, rows, np.maximum(starts[rows], at - BLOCK), np.zeros_like(rows), EARLIER)
    weighed = weigh(level_runs, runs, effects.of(rows), earlier, restless[rows])
    chosen = _clearest(rows, weighed)
    return _ends(
        weighed.of(chosen), before(table, rows[chosen], lengths, starts, _OLDEST_BEGINNING), counts[chosen], newest
    )


def _stretches(known: Ints, starts: Ints, newest: Ints) -> tuple[Ints, Ints]:
    """Return pairs of a row and a number of newest runs to judge together; for each row, `newest` comes first."""
    counts = np.unique(np.concatenate([newest, STRETCHES, _OF_YOUNG]))
    left = known[:, None] - counts
    is_young = (starts == 0)[:, None] & (left < FEW) & np.isin(counts, _OF_YOUNG)
    is_longer = (newest[:, None] < counts) & (left >= FEWEST_BEFORE) & (is_young | np.isin(counts, STRETCHES))
    rows, places = np.nonzero((newest[:, None] == counts) | is_longer)
    return rows, counts[places]


def _clearest(rows: Ints, weighed: Weighed) -> Ints:
    """For each row, return the stretch that is most clearly on a new level; else the first stretch."""
    order = np.lexsort([np.arange(len(rows)), -np.where(weighed.holds, weighed.score, -np.inf), rows])
    chosen: Ints = order[np.searchsorted(rows[order], np.unique(rows))]
    return chosen


def _ends(weighed: Weighed, recent: Floats, counts: Ints, newest: Ints) -> list[End]:
    counts = np.where(weighed.holds, _counts(recent, weighed, newest), counts)
    is_new: Bools = np.arange(recent.shape[1], 0, -1) <= counts[:, None]
    since = median(np.where(is_new, recent, np.nan))
    is_known = weighed.holds & (counts <= recent.shape[1])
    return ends_of(counts, weighed._replace(shift=np.where(is_known, since - weighed.level, weighed.shift)))


def ends_of(counts: Ints, weighed: Weighed) -> list[End]:
    return [End(*row) for row in zip(*(column.tolist() for column in (counts, *weighed)), strict=True)]


def _counts(recent: Floats, weighed: Weighed, newest: Ints) -> Ints:
    """Return how many of the last runs are nearer to the new level than to the one before."""
    distances = (recent - weighed.level[:, None]) * weighed.sign[:, None]
    shift = np.abs(weighed.shift)[:, None]
    most = np.maximum(shift, OUTLIER * weighed.noise[:, None]) ** 2
    nearer = np.minimum(distances**2, most) - np.minimum((distances - shift) ** 2, most)
    evidence = np.cumsum(np.nan_to_num(nearer[:, ::-1], nan=-np.inf), axis=1)
    possible = np.arange(1, recent.shape[1] + 1) >= newest[:, None]
    counts: Ints = np.argmax(np.where(possible, evidence, -np.inf), axis=1) + 1
    return np.maximum(counts, newest)
