"""Several repeats as one set of metrics: medians, with the spread beside them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from curator_bench.repeats import combine
from curator_bench.values import Repeat, Scalar, Verdict

if TYPE_CHECKING:
    from execution.conftest import Desk

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
FINITE = st.integers(-(10**12), 10**12) | st.floats(-1e12, 1e12)
COUNTS_UP = """
number = int(Path("count").read_text()) + 1 if Path("count").exists() else 1
Path("count").write_text(str(number))
write({"number": number, "where": sys.argv[1], "good": number != 3})
"""


def repeats_of(metrics: list[Mapping[str, Scalar]]) -> list[Repeat]:
    return [Repeat(number, 0, 1.0, one) for number, one in enumerate(metrics, 1)]


def repeats(values: list[Scalar]) -> list[Repeat]:
    return repeats_of([{"x": value} for value in values])


@given(st.dictionaries(st.text(max_size=3), SCALARS))
def test_a_single_repeat_is_the_run(metrics: dict[str, Scalar]) -> None:
    assert repr(combine(repeats_of([metrics]))) == repr(metrics)


@given(st.lists(FINITE, min_size=2, max_size=9))
def test_numbers_become_medians_with_their_spread_beside(values: list[Scalar]) -> None:
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    found = combine(repeats(values))
    assert set(found) == {"x", "x_min", "x_max", "x_std", "x_n"}
    assert found["x"] == pytest.approx(statistics.median(numbers))
    assert (found["x_min"], found["x_max"], found["x_n"]) == (min(numbers), max(numbers), len(numbers))
    assert found["x_std"] == pytest.approx(statistics.stdev(numbers), abs=1e-3)


@given(st.lists(FINITE, min_size=2, max_size=9), st.randoms())
def test_the_order_of_the_repeats_does_not_matter(values: list[Scalar], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert combine(repeats(values)) == pytest.approx(combine(repeats(shuffled)))


@given(st.lists(st.integers(-(2**70), 2**70), min_size=3, max_size=3))
def test_whole_numbers_stay_whole_and_exact(values: list[Scalar]) -> None:
    found = combine(repeats(values))["x"]
    assert type(found) is int
    assert found in values


@given(st.integers(), st.integers(0))
def test_halfway_between_two_whole_numbers_is_exact_where_it_is_whole(low: int, half: int) -> None:
    assert combine(repeats([low, low + 2 * half]))["x"] == low + half


@given(st.lists(st.floats(), min_size=1, max_size=6), st.integers(0, 6))
def test_what_was_once_not_a_number_is_none_in_the_median_either(values: list[float], place: int) -> None:
    with_it: list[Scalar] = [*values[:place], math.nan, *values[place:]]
    assert math.isnan(float(str(combine(repeats(with_it))["x"])))


@example([10**400, 1])
@example([-(10**400), 10**400, 0.5])
@example([1.7e308, 1.7e308, -1.7e308])
@example([math.inf, -math.inf])
@given(st.lists(st.floats(allow_nan=False) | st.integers(), min_size=2, max_size=6))
def test_no_number_is_too_large(values: list[Scalar]) -> None:
    found = combine(repeats(values))
    assert found["x_n"] == len(values)
    assert type(found["x_std"]) is float


@pytest.mark.parametrize("order", [1, -1])
def test_a_metric_the_script_names_like_a_spread_is_the_scripts(order: int) -> None:
    one, other = ({"x": 1, "x_max": 50}, {"x": 3, "x_max": 70})
    found = combine(repeats_of([dict(list(one.items())[::order]), other]))
    assert (found["x"], found["x_min"], found["x_max"], found["x_max_max"]) == (2, 1, 60, 70)


@given(st.lists(st.booleans(), min_size=2, max_size=6))
def test_a_truth_holds_when_it_held_each_time(values: list[Scalar]) -> None:
    assert combine(repeats(values)) == {"x": all(values)}


@pytest.mark.parametrize(
    ("values", "means"), [([1, 0, 1], 0), ([False, 1], False), ([1, "no", True], "no"), ([True, 1], 1), ([1, 1], 1)]
)
def test_one_repeat_without_success_is_enough(values: list[Scalar], means: Scalar) -> None:
    assert combine(repeats_of([{"is_success": value} for value in values])) == {"is_success": means}


@given(st.lists(SCALARS, min_size=2, max_size=6))
def test_any_values_at_all_give_one_value_by_the_name(values: list[Scalar]) -> None:
    found = combine(repeats(values))
    assert "x" in found
    if any(isinstance(value, str) or value is None for value in values):
        assert repr(found) == repr({"x": values[-1]})


def test_a_metric_that_is_sometimes_missing_is_counted_by_its_n() -> None:
    found = combine(repeats_of([{"x": 1, "y": 1}, {"x": 5}, {"x": 3}]))
    assert (found["x"], found["x_n"], found["y"], found["y_n"], found["y_std"]) == (3, 3, 1, 1, 0.0)


def test_every_repeat_has_its_folder_and_the_run_has_the_medians(desk: Desk) -> None:
    result = desk.run(COUNTS_UP, "{session_entry_dir}", repeat=3)
    assert result.verdict is Verdict.PASSED
    assert [repeat.index for repeat in result.repeats] == [1, 2, 3]
    folders = [desk.entry_dir, desk.entry_dir / "repeat_2", desk.entry_dir / "repeat_3"]
    assert [repeat.metrics["where"] for repeat in result.repeats] == list(map(str, folders))
    assert all((folder / "benchmark_results" / "metrics.json").exists() for folder in folders)
    assert all((folder / "logs" / "stdouterr.log").exists() for folder in folders)
    found = {name: result.metrics[name] for name in ("number", "number_min", "number_max", "number_std", "number_n")}
    assert found == {"number": 2, "number_min": 1, "number_max": 3, "number_std": 1.0, "number_n": 3}
    assert result.metrics["good"] is False
    assert result.metrics["exec_time_s_n"] == 3


def test_warmups_run_first_and_are_not_measured(desk: Desk) -> None:
    result = desk.run(COUNTS_UP, "{session_entry_dir}", warmup=2)
    assert result.metrics["number"] == 3
    assert len(result.repeats) == 1
    assert result.metrics["where"] == str(desk.entry_dir)
    for number in (1, 2):
        assert (desk.entry_dir / f"warmup_{number}" / "logs" / "stdouterr.log").exists()


def test_a_warmup_that_fails_ends_the_run_without_metrics(desk: Desk) -> None:
    result = desk.run("write({'x': 1}); sys.exit(4)", warmup=1, repeat=2)
    assert (result.verdict, result.exit_code, result.metrics) == (Verdict.CRASHED, 4, {})
    assert result.log_path == str(desk.entry_dir / "warmup_1" / "logs" / "stdouterr.log")


def test_a_repeat_that_fails_is_the_last(desk: Desk) -> None:
    result = desk.run(COUNTS_UP + "sys.exit(number == 2)", "{session_entry_dir}", repeat=4)
    assert result.verdict is Verdict.CRASHED
    assert len(result.repeats) == 2
    assert (desk.folder / "count").read_text() == "2"
