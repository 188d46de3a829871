"""Tell how far each run was from the level at its time, for the dashboard's map of entries and sessions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from curator_bench.causes.judged_history import JudgedSeries
from curator_bench.verdict.cases import MIN_EFFECT
from curator_bench.verdict.direction import Better
from curator_bench.verdict.distributions import Floats

RUNS = 40
"""The number of newest runs of each series that are looked at."""
_SETTLED = 3
"""The first runs of a level are compared with the level before, so a step is seen where it began."""
_STANDS_OUT = 3.0
"""In units of noise: a run nearer to the level does not stand out."""
_LEAST_NOISE = 0.003


def cells_of(series: Sequence[JudgedSeries], uids: Mapping[int, str]) -> dict[str, list[Any]]:
    """Return by uid of the session the change that stands out most, its metric, and whether it is more than noise.

    Changes for the worse are above 0. A change for the worse comes before any for the better.
    """
    found: dict[str, tuple[tuple[bool, float], list[Any]]] = {}
    for one in series:
        sessions, changes, scores = _against_levels(one)
        outstanding = (np.abs(scores) >= _STANDS_OUT) & (np.abs(changes) >= MIN_EFFECT)
        columns = sessions, changes.tolist(), scores.tolist(), outstanding.tolist()
        for session, change, score, stands_out in zip(*columns, strict=True):
            uid = uids.get(session)
            if uid is None or (uid in found and not stands_out) or not math.isfinite(change):
                continue
            rank = (stands_out and score > 0, abs(score) if stands_out else 0.0)
            if uid not in found or rank > found[uid][0]:
                found[uid] = rank, [float(f"{change:.4g}"), one.series.metric, stands_out]
    return {uid: cell for uid, (_, cell) in found.items()}


def _against_levels(one: JudgedSeries) -> tuple[list[int], Floats, Floats]:
    """Return the sessions of the newest runs, their changes against the level of then, and the same in noises."""
    values, levels = one.series.values, one.trend.levels
    first = max(0, len(values) - RUNS)
    bounds = np.array([level.start for level in levels] or [0])
    of_level = np.searchsorted(bounds, np.arange(first, len(values)), side="right") - 1
    is_settled = np.arange(first, len(values)) - bounds[of_level] >= _SETTLED
    of_level = np.maximum(of_level - ~is_settled, 0)
    middles = np.array([level.middle for level in levels] or [np.nan])[of_level]
    noises = np.maximum(np.array([level.noise for level in levels] or [np.nan])[of_level], _LEAST_NOISE)
    sign = 1.0 if one.better is Better.LESS else -1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        changes = sign * (values[first:] - middles) / np.abs(middles)
    return one.series.sessions[first:].tolist(), changes, changes / noises
