"""Gates: a run that is worse is told from noise, at any scale, in either direction, and never without a history."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_bench.verdict.cases import Question, Rules
from curator_bench.verdict.direction import Better
from curator_bench.verdict.distributions import Floats
from curator_bench.verdict.gates import Seen, Wanted, bar_of, failure_text
from curator_bench.verdict.judgement import Judgement, Unjudged, Word
from curator_bench.verdict.judging import judge
from curator_bench.verdict.scale import as_floats
from curator_bench.verdict.visible import visible_change

LESS, MORE = Rules(Better.LESS), Rules(Better.MORE)
ANY_FLOATS = st.lists(st.floats(-1e12, 1e12, allow_nan=False) | st.sampled_from([math.nan, math.inf, 0.0]), max_size=40)


def level(points: int = 40, noise: float = 0.02, seed: int = 0) -> Floats:
    return 1 + noise * np.random.default_rng(seed).standard_normal(points)


def gate(
    history: Floats | list[float], newest: float | list[float], rules: Rules = LESS, baseline: Floats | None = None
) -> Judgement:
    return judge([Question(as_floats(history), as_floats(np.atleast_1d(newest)), rules, baseline)])[0]


@pytest.mark.parametrize("size", [1.1, 1.3, 3.0])
def test_two_runs_that_are_much_slower_are_a_regression(size: float) -> None:
    judgement = gate(np.append(level(), size), size * 1.01)
    assert judgement.word is Word.REGRESSION
    assert judgement.change == pytest.approx(size - 1, abs=0.04 * size)
    assert judgement.began == 40
    assert judgement.interval is not None
    assert judgement.interval[0] < size * 1.005 - 1 < judgement.interval[1]


def test_a_single_slow_run_is_inconclusive_and_measuring_again_decides() -> None:
    alone = gate(level(), 1.2)
    assert alone.word is Word.INCONCLUSIVE
    assert "1 more run" in alone.decides
    assert gate(level(), [1.2, 1.19]).word is Word.REGRESSION
    assert gate(level(), [1.2, 1.0, 1.01]).word is Word.NO_CHANGE


@pytest.mark.parametrize("size", [2.0, 12.0])
def test_a_single_run_many_times_outside_all_that_the_history_has_shown_is_a_regression(size: float) -> None:
    assert gate(level(), size).word is Word.REGRESSION
    with_outlier = level()
    with_outlier[7] = 0.9 * size
    assert gate(with_outlier, size).word is Word.INCONCLUSIVE


def test_two_runs_as_far_away_as_many_outliers_before_them_are_a_regression_only_if_near_each_other() -> None:
    """Of outliers, two in a row are rarely so near to each other as runs of one level are."""
    with_outliers = level(120)
    with_outliers[[11, 42, 77, 98]] = 1.3, 1.5, 1.7, 1.4
    assert gate(np.append(with_outliers, 1.50), 1.51).word is Word.REGRESSION
    assert gate(np.append(with_outliers, 1.50), 1.66).word is Word.INCONCLUSIVE
    assert gate(np.append(with_outliers, [1.50, 1.66]), 1.55).word is Word.REGRESSION
    assert gate(np.append(level(120), 1.50), 1.66).word is Word.REGRESSION


@pytest.mark.parametrize("noise", [0.05, 0.08])
@pytest.mark.parametrize("before", [6, 7, 8, 9, 10])
@pytest.mark.parametrize("size", [2.0, 12.0])
def test_what_is_many_times_the_noise_is_found_however_young_the_history(
    noise: float, before: int, size: float
) -> None:
    """With two slow runs and with five; a quarter of the doubled ones may need the third where noise is 8 %."""
    for runs, least in ((2, 0.75 if noise > 0.05 and size < 3 else 0.95), (3, 0.95), (5, 0.95)):
        series = [level(before + runs, noise, seed) * np.repeat([1, size], [before, runs]) for seed in range(40)]
        found = judge([Question(one[:-1], one[-1:], LESS) for one in series])
        assert np.mean([one.word is Word.REGRESSION for one in found]) >= least


def test_half_as_much_more_is_found_in_a_young_and_noisy_history_within_five_runs() -> None:
    for before, least in ((6, 0.5), (10, 0.8)):
        series = [level(before + 5, 0.08, seed) * np.repeat([1, 1.5], [before, 5]) for seed in range(40)]
        found = judge([Question(one[:-1], one[-1:], LESS) for one in series])
        assert np.mean([one.word is Word.REGRESSION for one in found]) >= least


def test_a_small_change_is_found_when_it_has_lasted() -> None:
    judgement = gate(np.append(level(), 1.05 + 0.01 * np.array([1, -1, 0, 1, -1])), 1.05)
    assert judgement.word is Word.REGRESSION
    assert judgement.began is not None
    assert abs(judgement.began - 40) <= 1


def test_what_would_decide_is_true_of_the_size_of_the_change() -> None:
    """A young and noisy history hides half as much more: that is no matter of how close it is to a limit of 3 %."""
    young = [0.109, 0.063, 0.091, 0.098, 0.067, 0.089, 0.106, 0.172, 0.118]
    assert gate(young, 0.158).decides.startswith("too noisy to judge: with noise of ")
    runs = 1 + 0.0005 * np.resize([1, -1], 12)
    assert gate(runs, 1.0302).decides == "measuring again may not decide: the change is close to the limit"


def test_what_is_certain_but_too_small_is_no_change() -> None:
    changed = np.append(level(60, 0.002), 1.02 + level(5, 0.002, 1) - 1)
    assert gate(changed, 1.02).word is Word.NO_CHANGE
    assert gate(changed, 1.02, replace(LESS, min_effect=0.01)).word is Word.REGRESSION


def test_less_of_what_should_be_more_is_a_regression() -> None:
    history = np.append(1000 * level(), 880)
    assert gate(history, 885, MORE).word is Word.REGRESSION
    assert gate(history, 885, LESS).word is Word.IMPROVEMENT


@pytest.mark.parametrize("known", range(5))
def test_below_five_runs_nothing_is_said(known: int) -> None:
    judgement = gate(level(known), 100.0)
    assert judgement.unjudged is Unjudged.NO_HISTORY
    assert f"{known} of at least 5 runs" in judgement.reason


def test_as_many_runs_as_are_asked_for_are_needed() -> None:
    rules = replace(LESS, min_history=20)
    assert gate(level(19), [2.0, 2.0], rules).unjudged is Unjudged.NO_HISTORY
    assert gate(level(20), [2.0, 2.0], rules).word is Word.REGRESSION


def test_without_a_direction_nothing_is_judged() -> None:
    judgement = gate(level(), 2.0, Rules(None))
    assert judgement.unjudged is Unjudged.NOT_COMPARABLE
    assert "declare `better`" in judgement.reason


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_not_comparable(value: float) -> None:
    assert gate(level(), value).unjudged is Unjudged.NOT_COMPARABLE


def test_runs_without_a_number_count_for_nothing() -> None:
    history = np.append(level(), 1.1)
    with_gaps = np.insert(history, [3, 9, 40], [math.nan, math.inf, math.nan])
    plain, gapped = gate(history, 1.1), gate(with_gaps, 1.1)
    assert plain.p_value == gapped.p_value
    assert gapped.history == 41
    assert gapped.began == 43


def test_a_history_that_changed_before_and_went_back_asks_for_more() -> None:
    calm = level(60, 0.01)
    assert gate(calm, [1.09, 1.09]).word is Word.REGRESSION
    restless = np.concatenate([1.3 * level(40, 0.01, seed=1), level(60, 0.01)])
    assert gate(restless, [1.09, 1.09]).word is Word.REGRESSION
    restless[70:73] = 1.06
    assert gate(restless, [1.09, 1.09]).word is Word.INCONCLUSIVE
    assert gate(restless, [1.2, 1.2]).word is Word.REGRESSION


def test_one_run_that_is_a_quarter_slower_is_inconclusive_however_quiet_the_history() -> None:
    assert gate(level(60, 0.002), 1.25).word is Word.INCONCLUSIVE
    assert gate(level(60, 0.002), 1.5).word is Word.REGRESSION


def test_outliers_of_the_history_explain_another() -> None:
    history = level(60)
    history[[5, 17, 23, 44, 51]] *= 1.4
    assert gate(history, [1.41, 1.4]).word is Word.INCONCLUSIVE
    assert gate(level(60), [1.41, 1.4]).word is Word.REGRESSION


def test_a_slow_drift_is_no_regression() -> None:
    for seed in range(20):
        drift = level(150, 0.01, seed) * (1 + 0.01 * np.arange(150) / 50)
        assert gate(drift[:-1], drift[-1]).word is not Word.REGRESSION


def test_the_level_before_is_that_since_the_last_step() -> None:
    """A history that came down to half, and now goes up by a fifth of that."""
    history = np.concatenate([2 * level(40), level(40, seed=1), [1.2]])
    judgement = gate(history, 1.21)
    assert judgement.word is Word.REGRESSION
    assert judgement.before == pytest.approx(1.0, abs=0.02)


def test_a_baseline_of_its_own_is_what_newest_is_held_against() -> None:
    judgement = gate(level(), [1.0, 1.01], baseline=0.8 * level(10, seed=3))
    assert judgement.word is Word.REGRESSION
    assert judgement.before == pytest.approx(0.8, abs=0.02)
    assert gate(level(), [1.2, 1.21], baseline=1.2 * level(10, seed=3)).word is Word.NO_CHANGE


def test_a_baseline_without_runs_is_no_history() -> None:
    assert gate(level(), 2.0, baseline=np.array([])).unjudged is Unjudged.NO_HISTORY


def test_an_interval_wholly_beyond_what_matters_never_stands_beside_no_change() -> None:
    random = np.random.default_rng(3)
    for seed in range(300):
        noise = random.uniform(0.01, 0.1)
        judgement = gate(level(int(random.integers(5, 60)), noise, seed), 1 + 3 * noise * random.standard_normal())
        assert judgement.interval is not None
        if judgement.interval[0] >= 0.03 or judgement.interval[1] <= -0.03:
            assert judgement.word is not Word.NO_CHANGE


def test_a_run_beyond_its_limit_is_never_met() -> None:
    rules = replace(LESS, min_effect=0.1)
    assert gate(level(8, 0.09), 1.25, rules).word is Word.INCONCLUSIVE
    assert gate(level(8, 0.02), 1.05, rules).word is Word.NO_CHANGE


@pytest.mark.parametrize("noise", [0.01, 0.05])
@pytest.mark.parametrize(("history", "newest"), [(8, 2), (20, 3), (40, 2), (40, 6)])
def test_four_of_five_changes_of_the_size_said_to_be_visible_are_found(noise: float, history: int, newest: int) -> None:
    size = 1 + visible_change(noise, history, newest, least=LESS.min_effect)
    series = [level(history + newest, noise, seed) * np.repeat([1, size], [history, newest]) for seed in range(100)]
    found = judge([Question(one[:history], one[history:], LESS) for one in series])
    assert np.mean([one.word is Word.REGRESSION for one in found]) >= 0.65


def test_what_cannot_be_seen_is_said_and_more_runs_see_more() -> None:
    blind = gate(level(6, 0.09), 1.02)
    assert blind.is_blind_to(0.1)
    assert not gate(level(40, 0.01), 1.0).is_blind_to(0.1)
    assert visible_change(0.09, 6, 10) < visible_change(0.09, 6, 2)


@given(st.floats(1e-6, 1e6), st.integers(0, 50), st.floats(0.85, 1.2))
def test_the_unit_does_not_matter(unit: float, seed: int, last: float) -> None:
    history = np.append(level(30, seed=seed), last)
    plain, scaled = gate(history, last), gate(unit * history, unit * last)
    assert scaled.word is plain.word
    assert scaled.p_value == pytest.approx(plain.p_value, rel=1e-6)
    assert scaled.change == pytest.approx(plain.change, abs=1e-9)


@given(st.integers(0, 200), st.floats(0.8, 1.25))
def test_times_and_their_reciprocals_are_judged_by_the_same_rule(seed: int, last: float) -> None:
    history = np.append(level(30, seed=seed), last)
    times, speeds = gate(history, last), gate(1 / history, 1 / last, MORE)
    assert speeds.change is not None
    assert (times.word is Word.REGRESSION) == (speeds.word is Word.REGRESSION) or abs(speeds.change) < LESS.min_effect
    assert times.p_value == pytest.approx(speeds.p_value, rel=1e-6)


@given(ANY_FLOATS, st.lists(st.floats(-1e12, 1e12, allow_nan=False), min_size=1, max_size=4), st.sampled_from(Better))
def test_whatever_was_measured_there_is_an_answer(history: list[float], newest: list[float], better: Better) -> None:
    judgement = gate(history, newest, Rules(better))
    assert 0 <= judgement.p_value <= 1
    assert judgement.reason
    if judgement.interval is not None and judgement.change is not None and math.isfinite(judgement.change):
        assert judgement.interval[0] <= judgement.change <= judgement.interval[1]
    if judgement.word in (Word.REGRESSION, Word.IMPROVEMENT):
        assert judgement.began is not None
        assert 0 <= judgement.began < len(history) + len(newest)


def test_values_that_never_differ_are_no_change() -> None:
    for value in (0.0, 3.0, -2.0, 1e-12):
        assert gate([value] * 20, value).word is Word.NO_CHANGE


def test_leaving_zero_for_good_is_a_regression() -> None:
    assert gate([0.0] * 20, [5.0, 5.0]).word is Word.REGRESSION


def test_many_questions_get_the_answers_of_one_by_one() -> None:
    questions = [Question(level(20 + 5 * seed, seed=seed), np.array([1 + 0.05 * seed]), LESS) for seed in range(8)]
    for question, judgement in zip(questions, judge(questions), strict=True):
        (alone,) = judge([question])
        assert alone.word is judgement.word
        assert alone.p_value == pytest.approx(judgement.p_value, rel=1e-9)


def test_of_many_tests_of_a_session_hardly_ever_one_is_believed_by_chance() -> None:
    """Each is decided before the next is known; what has been believed makes the next easier to believe."""
    random, tests = np.random.default_rng(7), 200
    sessions = random.random((1000, tests))
    assert np.mean(np.any(sessions <= bar_of(tests, 0), axis=1)) <= 0.065
    assert bar_of(tests, 3) == pytest.approx(4 * bar_of(tests, 0))


def test_what_is_never_negative_cannot_lose_more_than_all_of_it() -> None:
    """CPU time of short scripts is zero at times, so that it has no logarithm."""
    history = np.random.default_rng(3).choice([0.0, 0.01, 0.02, 0.05], size=30)
    for newest in (0.0, 0.01, 0.3):
        judgement = gate(history, newest)
        assert judgement.interval is not None
        assert judgement.interval[0] >= -1.0
        assert judgement.before is not None
        assert judgement.before >= 0


@pytest.mark.parametrize(("value", "change"), [(1.0, "no longer zero"), (1e308, "over ×1,000")])
def test_what_has_no_share_is_told_without_one(value: float, change: str) -> None:
    history = np.zeros(20) if value == 1.0 else level(20)
    judgement = gate(history, value)
    text = failure_text(Wanted("t_s", LESS, 0.1), judgement, value=value, runs=1, trend="", seen=Seen())
    assert change in text
    assert max(map(len, text.splitlines())) < 150
    assert "inf" not in text.replace("inconclusive", "")
