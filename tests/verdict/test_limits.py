"""Limits that noise alone exceeds in fewer than 1 of 1,000 runs, and what they catch."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from curator_bench.verdict.distributions import Floats
from curator_bench.verdict.judgement import Level
from curator_bench.verdict.limits import FEWEST, RATE, Scatter, scatter_of

Noise = Callable[[np.random.Generator, int], Floats]
HISTORIES, RUNS, AFTERWARDS = 20, 40, 5_000


def correlated(rng: np.random.Generator, count: int) -> Floats:
    """Each run is half like the one before."""
    noise = rng.normal(0, 0.02, count)
    for at in range(1, count):
        noise[at] = 0.5 * noise[at - 1] + math.sqrt(0.75) * noise[at]
    return noise


NOISES: dict[str, Noise] = {
    "normal": lambda rng, count: rng.normal(0, 0.02, count),
    "heavy tails": lambda rng, count: 0.02 * rng.standard_t(3, count),
    "skewed": lambda rng, count: 0.01 * np.exp(rng.normal(0, 1, count)),
    "two modes": lambda rng, count: rng.normal(0, 0.01, count) + 0.2 * (rng.random(count) < 0.5),
    "correlated": correlated,
}


def scatter(values: Floats, *ends: int) -> Scatter | None:
    bounds = [0, *ends, len(values)]
    return scatter_of(values, [Level(*pair, 0.0, 0.0) for pair in pairwise(bounds)])


@pytest.mark.parametrize("noise", NOISES)
def test_noise_alone_exceeds_fewer_than_1_of_1000_runs(noise: str) -> None:
    rng = np.random.default_rng(7)
    beyond = 0
    for _ in range(HISTORIES):
        values = np.exp(NOISES[noise](rng, RUNS + AFTERWARDS))
        found = scatter(values[:RUNS])
        assert found is not None
        after = values[RUNS:]
        beyond += int((after > found.limit(is_upper=True)).sum() + (after < found.limit(is_upper=False)).sum())
    # In 200,000 runs (a run and a limit), 200 are expected at the rate that is promised.
    assert beyond / (2 * HISTORIES * AFTERWARDS) < RATE


def test_a_limit_catches_what_it_says() -> None:
    rng = np.random.default_rng(3)
    found = scatter(10 * np.exp(rng.normal(0, 0.02, 60)))
    assert found is not None
    for is_upper in (True, False):
        limit = found.limit(is_upper=is_upper)
        change = found.catches(limit, is_upper=is_upper)
        runs = found.level * (1 + change) * np.exp(rng.normal(0, 0.02, 10_000))
        share = float(((runs > limit) if is_upper else (runs < limit)).mean())
        assert 0.7 < share < 0.9
        assert found.chance(limit, is_upper=is_upper) < RATE
        assert found.chance(found.level, is_upper=is_upper) == pytest.approx(0.5, abs=0.1)
        assert found.chance(found.level * (0.9 if is_upper else 1.1), is_upper=is_upper) == 1.0
    assert found.catches(0.0, is_upper=False) == -1.0  # a limit of zero catches nothing


def test_outliers_make_limits_wide_and_older_levels_count_by_their_scatter_alone() -> None:
    rng = np.random.default_rng(4)
    quiet = np.exp(rng.normal(0, 0.01, 60))
    restless = quiet.copy()
    restless[[5, 20, 41]] *= 1.5
    stepped = np.concatenate([3 * quiet[:50], quiet[50:]])
    limits = [
        found.limit(is_upper=True)
        for one, ends in ((quiet, ()), (restless, ()), (stepped, (50,)))
        if (found := scatter(one, *ends)) is not None
    ]
    assert limits[0] < 1.15
    assert limits[1] > 1.5
    assert limits[2] == pytest.approx(limits[0], rel=0.05)


def test_too_few_runs_say_nothing() -> None:
    values = np.linspace(1, 1.1, 60)
    assert scatter(values[: FEWEST - 1]) is None
    assert scatter(values, 57) is None  # a level that has just begun
    assert scatter(np.where(np.arange(60) < 40, np.nan, values)) is None
    assert scatter_of(np.zeros(0), []) is None


def test_metrics_that_never_change_or_are_not_positive_have_limits_too() -> None:
    constant = scatter(np.full(40, 1000.0))
    assert constant is not None
    assert (constant.is_constant, constant.level) == (True, 1000.0)
    around_zero = scatter(np.random.default_rng(1).normal(0, 2, 60))
    assert around_zero is not None
    assert around_zero.limit(is_upper=False) < -6
