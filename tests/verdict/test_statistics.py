"""The small parts of the statistics: tails, scale, intervals, direction, what is comparable, false discoveries."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_bench.verdict.comparable import Origin, comparable_with, difference
from curator_bench.verdict.direction import Better, better_of
from curator_bench.verdict.distributions import normal_score, t_score, t_value, variance_of_mean
from curator_bench.verdict.false_discovery import adjusted, discoveries
from curator_bench.verdict.intervals import change_between
from curator_bench.verdict.scale import Scale, scale_of

CHANCES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


def test_scores_are_the_logarithms_of_the_tails_of_the_textbook() -> None:
    assert np.exp(-normal_score(np.array([0.0, 1.959964, 3.0, -1.0]))) == pytest.approx(
        [0.5, 0.025, 0.00134990, 0.8413447], rel=1e-5
    )
    assert normal_score(np.array([40.0])) == pytest.approx([804.608], rel=1e-5)
    student = np.exp(-t_score(np.array([2.228139, 4.143700]), np.array([10.0, 10.0])))  # 2.5 % and 0.1 %
    assert student == pytest.approx([0.025, 0.001], rel=0.05)
    assert t_value(0.025, np.array([10.0, 1000.0])) == pytest.approx([2.228, 1.962], rel=0.01)


@given(st.integers(2, 40), st.floats(0, 0.9))
def test_the_mean_of_correlated_values_varies_as_their_covariances_say(count: int, correlation: float) -> None:
    lags = np.abs(np.subtract.outer(np.arange(count), np.arange(count)))
    expected = np.sum(correlation**lags) / count**2
    assert variance_of_mean(np.array(float(count)), np.array(correlation)) == pytest.approx(expected, rel=1e-6)


@given(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=9))
def test_a_scale_leads_back(values: list[float]) -> None:
    scale = scale_of(np.array(values))
    assert [scale.back(float(place)) for place in scale.to(np.array(values))] == pytest.approx(values)


def test_the_largest_numbers_stay_what_they_are() -> None:
    largest = np.array([1e305, sys.float_info.max])
    assert [Scale().back(float(place)) for place in Scale().to(largest)] == pytest.approx(largest)


def test_nine_of_ten_and_more_intervals_hold_the_change() -> None:
    random = np.random.default_rng(5)
    hits = 0
    for _ in range(300):
        before, after = 1 + 0.03 * random.standard_normal(20), 1.1 * (1 + 0.03 * random.standard_normal(12))
        low, high = change_between(before, after).interval
        hits += low <= 0.1 <= high
    assert 0.92 <= hits / 300 <= 0.99


def test_more_confidence_makes_wider_intervals() -> None:
    before, after = [1.0, 1.02, 0.99, 1.01, 0.98], [1.1, 1.09, 1.12, 1.11, 1.1]
    narrow, wide = (change_between(before, after, confidence=confidence).interval for confidence in (0.8, 0.99))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


@pytest.mark.parametrize(
    ("metric", "better"),
    [
        *(
            (name, Better.LESS)
            for name in ("exec_time_s", "time", "peak_memory_bytes", "memory", "latency_ms", "wallTime")
        ),
        *((name, Better.LESS) for name in ("s_per_step", "bytes_per_doc", "error_rate", "duration", "sort_ms_p99")),
        *((name, Better.MORE) for name in ("throughput", "docs_per_sec", "tokens_per_s", "rows_per_second", "recall")),
        *((name, Better.MORE) for name in ("throughput_docs_per_sec", "bytes_per_s", "errors_checked_per_sec")),
        *((name, Better.MORE) for name in ("rows/s", "GB/sec", "docs/Second")),
        *((name, Better.LESS) for name in ("s/row", "read/write_bytes")),
        *((name, None) for name in ("rows/step", "num_docs", "seed", "batches", "exit_code", "is_success", "")),
    ],
)
def test_the_name_of_a_metric_tells_its_direction(metric: str, better: Better | None) -> None:
    assert better_of(metric) is better


@pytest.mark.parametrize("declared", Better)
def test_what_is_declared_goes_before_the_name(declared: Better) -> None:
    assert better_of("exec_time_s", str(declared)) is declared


def test_only_like_is_compared_and_the_rest_named() -> None:
    mine = Origin("a", "d" * 64, "m1")
    others = [mine, Origin("a", "e" * 64, "m1"), Origin("a", "d" * 64, "m2"), Origin("b"), mine]
    found = comparable_with(mine, others)
    assert found.indices == (0, 4)
    assert "1 run, because the definition was another one (eeeeeeee, not dddddddd)" in found.reason
    assert "1 run, because the machine was m2, not m1" in found.reason
    assert comparable_with(mine, [mine]).reason == ""


def test_another_series_is_told_by_what_differs() -> None:
    mine = Origin("a", "d" * 64, identity={"arguments": "--n 2", "CPUs": "2"})
    other = Origin("a", "e" * 64, identity={"arguments": "--n 1", "CPUs": "2", "GPUs": "1"})
    assert difference(mine, other) == "the arguments were --n 1, not --n 2 and the GPUs were 1, not none"


def test_what_is_not_known_is_the_same_as_any_other_unknown() -> None:
    assert difference(Origin("a", None, None), Origin("a", "", None)) == ""
    assert "(unknown)" in difference(Origin("a", None, "m1"), Origin("a", None, None))


@given(CHANCES)
def test_adjusting_keeps_the_order_and_makes_nothing_more_certain(chances: list[float]) -> None:
    rates = adjusted(chances)
    assert np.all(rates >= np.array(chances) - 1e-12)
    assert np.all(rates <= 1)
    order = np.argsort(chances, kind="stable")
    assert np.all(np.diff(rates[order]) >= -1e-12)


@given(CHANCES, st.integers(30, 3000))
def test_more_tests_ask_for_more_certainty(chances: list[float], tests: int) -> None:
    assert np.all(adjusted(chances, tests=tests) >= adjusted(chances) - 1e-12)


def test_of_many_tests_without_an_effect_hardly_ever_one_is_believed() -> None:
    random = np.random.default_rng(1)
    believed = sum(bool(discoveries(random.random(2000)).any()) for _ in range(400))
    assert believed / 400 < 0.09


def test_what_is_believed_is_mostly_true() -> None:
    random = np.random.default_rng(2)
    shares = []
    for _ in range(200):
        chances = np.concatenate([1e-6 * random.random(50), random.random(950)])
        found = discoveries(chances)
        shares.append(found[50:].sum() / found.sum())
        assert found[:50].all()
    assert np.mean(shares) < 0.06


def test_nothing_tested_is_nothing_found() -> None:
    assert len(discoveries([])) == 0
    assert math.isclose(adjusted([0.01], tests=10)[0], 0.1)
