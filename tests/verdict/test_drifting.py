"""Drift: what becomes worse bit by bit is called drift, since a mark or the best level; a step and noise are none."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from curator_bench.verdict.cases import History, Rules
from curator_bench.verdict.direction import Better
from curator_bench.verdict.distributions import Floats
from curator_bench.verdict.drifting import drift_sight, drifts
from curator_bench.verdict.judgement import Drift, Mark, Trend, Word
from curator_bench.verdict.trends import trends

LESS = Rules(Better.LESS)


def noisy(places: NDArray[np.floating], noise: float = 0.01, seed: int = 0) -> Floats:
    values: Floats = places * (1 + noise * np.random.default_rng(seed).standard_normal(len(places)))
    return values


def drift(values: Floats, *marks: Mark, rules: Rules = LESS, least: float = 0.03) -> Drift | None:
    return drifts([(History(values, rules), marks)], least=least)[0]


@pytest.mark.parametrize("sessions", [60, 120])
def test_a_little_more_each_session_is_drift_and_no_regression(sessions: int) -> None:
    many = [noisy(1.003 ** np.maximum(np.arange(20.0 + sessions) - 20, 0.0), seed=seed) for seed in range(20)]
    assert all(drift(values) for values in many)
    steps = [trend.steps for trend in trends([History(values, LESS) for values in many])]
    assert sum(any(step.word is Word.REGRESSION for step in own) for own in steps) <= 2


@pytest.mark.parametrize("apart", [10, 20, 30])
def test_five_losses_of_two_percent_are_drift(apart: int) -> None:
    many = [noisy(np.repeat(1.02 ** np.arange(6), apart), seed=seed) for seed in range(20)]
    found = [one for values in many if (one := drift(values))]
    assert len(found) >= 19
    assert np.mean([one.change for one in found]) == pytest.approx(0.09, abs=0.025)


def test_most_losses_of_two_percent_every_five_runs_are_drift_and_no_regression() -> None:
    """The others are called one regression of about 8 %; none is missed."""
    losses = np.concatenate([np.ones(55), np.repeat(1.02 ** np.arange(6), 5), np.full(15, 1.02**5)])
    many = [History(noisy(losses, seed=seed), LESS) for seed in range(100)]
    drifted = [one is not None for one in drifts([(history, ()) for history in many])]
    called = [any(step.word is Word.REGRESSION for step in trend.steps) for trend in map(_trend, many)]
    assert np.mean(drifted) >= 0.75
    assert np.mean(called) <= 0.3
    assert np.all(np.logical_or(drifted, called))


def _trend(history: History) -> Trend:
    """The trend of a history that is reported by itself."""
    return trends([history])[0]


def test_hardly_one_of_a_thousand_series_that_do_not_change_has_drifted() -> None:
    random = np.random.default_rng(8)
    clean = [1 + random.uniform(0.01, 0.1) * random.standard_normal(int(random.integers(30, 200))) for _ in range(1000)]
    assert sum(one is not None for one in drifts([(History(values, LESS), ()) for values in clean])) <= 1


def test_a_mark_that_shows_most_of_it_is_named_before_the_best_level() -> None:
    values = noisy(1.002 ** np.arange(120.0))
    found = drift(values, Mark("release 1.2", 15), Mark("30 days ago", 80))
    assert found is not None
    assert found.since == "release 1.2"
    assert found.change == pytest.approx(1.002**95 - 1, abs=0.03)
    assert found.interval[0] < found.change < found.interval[1]
    at_best = drift(values)
    assert at_best is not None
    assert at_best.since == "its best"


def test_a_mark_that_hides_most_of_it_gives_way_to_the_best_level() -> None:
    found = drift(noisy(1.002 ** np.arange(120.0)), Mark("30 days ago", 80))
    assert found is not None
    assert found.since == "its best"
    assert found.change == pytest.approx(1.002**100 - 1, abs=0.03)


def test_a_step_is_no_drift_and_what_is_too_little_is_none() -> None:
    assert drift(noisy(np.repeat([1.0, 1.2], 40))) is None
    assert drift(noisy(1.002 ** np.arange(120.0)), least=0.5) is None


def test_getting_better_bit_by_bit_is_none() -> None:
    assert drift(noisy(0.998 ** np.arange(120.0))) is None
    assert drift(noisy(0.998 ** np.arange(120.0)), rules=Rules(Better.MORE)) is not None


@pytest.mark.parametrize("runs", range(16))
def test_few_runs_show_nothing(runs: int) -> None:
    assert drift(np.full(runs, 2.0)) is None
    assert drift_sight(History(np.full(runs, 2.0), LESS)) is None or runs == 15


@pytest.mark.parametrize(("runs", "noise"), [(60, 0.02), (60, 0.08), (120, 0.05)])
def test_most_drifts_of_the_size_said_to_be_visible_are_found(runs: int, noise: float) -> None:
    """As a drift, or as a regression where the whole of it took few runs."""
    found = []
    for seed in range(40):
        calm = noisy(np.ones(runs), noise, seed)
        seen = drift_sight(History(calm, LESS))
        assert seen is not None
        slope = np.clip((np.arange(runs) - runs / 3) / (runs / 3), 0, 1)
        crept = calm * (1 + seen.visible) ** slope
        found.append(drift(crept) is not None or bool(_trend(History(crept, LESS)).steps))
    assert np.mean(found) >= 0.75


def test_the_noisier_or_shorter_a_history_the_larger_the_drift_it_hides() -> None:
    visible = [
        seen.visible
        for runs, noise in ((120, 0.01), (120, 0.05), (20, 0.05))
        if (seen := drift_sight(History(noisy(np.ones(runs), noise), LESS)))
    ]
    assert visible == sorted(visible)
    assert visible[0] < 0.04
    assert visible[-1] > 0.15
