"""Requirements: every bound is checked, exactly as it is written, and a miss says by how much."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_bench.values import Check, Requirement, RunResult, Scalar, Verdict
from curator_bench.verdict.requirements import check, judge, nearest_names

NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
NOT_NUMBERS: st.SearchStrategy[Scalar] = st.one_of(
    st.none(), st.booleans(), st.text(max_size=10), st.sampled_from([math.nan, math.inf, -math.inf])
)
SCALARS = NUMBERS | NOT_NUMBERS
NAMES = st.text(max_size=12)
LIMITS = st.none() | NUMBERS
REQUIREMENTS = st.builds(
    Requirement,
    metric=NAMES,
    min_value=LIMITS,
    max_value=LIMITS,
    exact_value=st.none() | SCALARS,
    tolerance=st.none() | st.floats(min_value=0),
    max_regression=st.none() | st.just(0.1),
)


def only_check(requirement: Requirement, value: Scalar) -> Check:
    (result,) = check([requirement], {requirement.metric: value})
    return result


def bounded(bound: str, limit: float) -> Requirement:
    """A requirement with this one bound, and a tolerance that lets every number pass."""
    by_bound = {
        "min_value": Requirement("a", min_value=limit, tolerance=1e300),
        "max_value": Requirement("a", max_value=limit, tolerance=1e300),
        "exact_value": Requirement("a", exact_value=limit, tolerance=1e300),
    }
    return by_bound[bound]


def result_of(verdict: Verdict, **metrics: Scalar) -> RunResult:
    return RunResult("entry", verdict, started_at="", ended_at="", duration_s=1.0, metrics=metrics)


def written(value: int | float) -> Decimal:
    """What the number says in decimal, computed another way than in the code under test."""
    return Decimal(value) if isinstance(value, int) else Decimal(str(value))


def test_every_bound_of_every_requirement_is_checked() -> None:
    requirements = [
        Requirement("a", min_value=10, max_value=5),
        Requirement("b", min_value=1),
        Requirement("a", exact_value=3),
        Requirement("gone", max_value=1),
    ]
    found = check(requirements, {"a": 7, "b": 2})
    assert [(one.metric, one.bound, one.met) for one in found] == [
        ("a", "min_value", False),
        ("a", "max_value", False),
        ("b", "min_value", True),
        ("a", "exact_value", False),
        ("gone", "max_value", False),
    ]


def test_a_bound_includes_its_limit() -> None:
    assert only_check(Requirement("a", min_value=2), 2.0).met
    assert only_check(Requirement("a", max_value=2), 2.0).met
    assert not only_check(Requirement("a", min_value=2), math.nextafter(2, 0)).met
    assert not only_check(Requirement("a", max_value=2), math.nextafter(2, 3)).met


def test_a_miss_says_by_how_much() -> None:
    low = only_check(Requirement("a", min_value=200), 183.2)
    assert (low.off_by, low.off_by_fraction) == (16.8, 0.084)
    high = only_check(Requirement("a", max_value=-4), 4)
    assert (high.off_by, high.off_by_fraction) == (8, 2.0)
    assert only_check(Requirement("a", max_value=0), 3).off_by_fraction is None
    assert only_check(Requirement("a", min_value=1), 3).off_by is None


@pytest.mark.parametrize(
    ("wanted", "actual", "met"),
    [
        (True, True, True),
        (False, False, True),
        (True, False, False),
        (True, 1, False),
        (True, 1.0, False),
        (True, "true", False),
        (True, None, False),
        (1, True, False),
        (0, False, False),
        ("fast", "fast", True),
        ("fast", "Fast", False),
        ("1", 1, False),
        (1, "1", False),
    ],
)
def test_exact_values_are_compared_within_their_kind(wanted: Scalar, actual: Scalar, met: bool) -> None:
    found = only_check(Requirement("a", exact_value=wanted), actual)
    assert found.met is met
    assert bool(found.note) is (type(wanted) is not type(actual))


@pytest.mark.parametrize(
    ("wanted", "actual", "met"),
    [
        (100, 100, True),
        (100, 100.0, True),
        (2**70, 2**70, True),
        (2**70, 2**70 + 1, False),
        (2**53 + 1, float(2**53), False),
        pytest.param(10**400, 10**400 + 1, False, id="10**400-and-one-more"),
        (0.3, 0.1 + 0.2, False),
        (0.3, 0.3, True),
        (0.0, -0.0, True),
        (1e23, 10**23, True),
    ],
)
def test_exact_numbers_are_compared_exactly(wanted: float, actual: float, met: bool) -> None:
    assert only_check(Requirement("a", exact_value=wanted), actual).met is met


def test_whole_numbers_of_any_size_are_off_by_a_whole_number() -> None:
    found = only_check(Requirement("a", exact_value=2**70), 2**70 + 1)
    assert (found.off_by, type(found.off_by)) == (1, int)
    assert only_check(Requirement("a", max_value=1), 10**400).off_by_fraction == math.inf


@pytest.mark.parametrize(("actual", "met"), [(0.98, True), (0.96, True), (0.97, True), (0.981, False), (0.9599, False)])
def test_a_tolerance_is_an_absolute_difference_and_includes_its_ends(actual: float, met: bool) -> None:
    assert only_check(Requirement("recall", exact_value=0.97, tolerance=0.01), actual).met is met


@pytest.mark.parametrize("requirement", [Requirement("a", min_value=5), Requirement("a", max_value=5)])
def test_a_tolerance_loosens_exact_values_only(requirement: Requirement) -> None:
    value = 4 if requirement.min_value else 6
    assert not only_check(replace(requirement, tolerance=10), value).met


@given(value=NOT_NUMBERS, bound=st.sampled_from(["min_value", "max_value", "exact_value"]), limit=NUMBERS)
def test_what_is_not_a_number_meets_no_numeric_bound(value: Scalar, bound: str, limit: float) -> None:
    found = only_check(bounded(bound, limit), value)
    assert (found.met, found.off_by) == (False, None)
    assert found.note.endswith(", not a number")


@pytest.mark.parametrize("limit", [math.nan, math.inf, -math.inf])
def test_a_limit_that_is_not_a_number_is_not_met_and_says_so(limit: float) -> None:
    for bound in ("min_value", "max_value", "exact_value"):
        found = only_check(bounded(bound, limit), 1)
        assert (found.met, found.note[:9]) == (False, "the limit")


@given(actual=NUMBERS, limit=NUMBERS)
def test_numbers_are_compared_as_they_are_written(actual: float, limit: float) -> None:
    with localcontext(prec=2000):
        below, above = written(actual) < written(limit), written(actual) > written(limit)
        distance = abs(written(actual) - written(limit))
    found = check(
        [Requirement("a", min_value=limit, max_value=limit), Requirement("a", exact_value=limit)], {"a": actual}
    )
    assert [one.met for one in found] == [not below, not above, not (below or above)]
    for one in found:
        assert (one.off_by is None) is one.met
        assert one.off_by is None or one.off_by == pytest.approx(float(distance), rel=1e-12, abs=0)


@given(actual=NUMBERS, limit=NUMBERS, tolerance=st.floats(min_value=0, allow_infinity=False))
def test_a_tolerance_is_kept_to_the_last_digit(actual: float, limit: float, tolerance: float) -> None:
    with localcontext(prec=2000):
        expected = abs(written(actual) - written(limit)) <= written(tolerance)
    assert only_check(Requirement("a", exact_value=limit, tolerance=tolerance), actual).met is expected


@given(requirements=st.lists(REQUIREMENTS, max_size=5), metrics=st.dictionaries(NAMES, SCALARS, max_size=5))
def test_there_is_one_check_for_each_bound(requirements: list[Requirement], metrics: dict[str, Scalar]) -> None:
    bounds = [
        (requirement.metric, bound)
        for requirement in requirements
        for bound in ("min_value", "max_value", "exact_value")
        if getattr(requirement, bound) is not None
    ]
    found = [one for one in check(requirements, metrics) if one.bound != "max_regression"]
    assert [(one.metric, one.bound) for one in found] == bounds
    assert all(one.missing is (one.metric not in metrics) for one in found)
    assert not any(one.met for one in found if one.missing)


def test_a_requirement_on_regressions_alone_is_left_to_the_history() -> None:
    assert check([Requirement("a", max_regression=0.1)], {"a": 1}) == ()


def test_of_what_is_no_number_no_history_is_asked_for() -> None:
    (missing,) = check([Requirement("time_s", max_regression=0.1)], {"times": 1})
    assert (missing.bound, missing.missing, missing.met) == ("max_regression", True, False)
    (text,) = check([Requirement("a", max_regression=0.1)], {"a": "fast"})
    assert (text.met, text.note) == (False, "is text, not a number")


def test_a_missing_metric_names_its_nearest() -> None:
    metrics = {"time_taken_s": 1.0, "throughput_docs_per_sec": 2.0, "num_removed": 3}
    (found,) = check([Requirement("time_taken", max_value=60)], metrics)
    assert (found.missing, found.actual, found.note) == (True, None, "no such metric; nearest: time_taken_s")
    (found,) = check([Requirement("zzz", max_value=60)], metrics)
    assert found.note == "no such metric, and none with a similar name"
    (found,) = check([Requirement("zzz", max_value=60)], {})
    assert found.note == "there are no metrics at all"


@pytest.mark.parametrize(("bound", "limit"), [("max_value", 10**9), ("max_regression", 0.1), ("max_drift", 0.1)])
def test_memory_of_a_run_too_short_to_be_sampled_is_inconclusive_not_unmet(bound: str, limit: float) -> None:
    requirement = Requirement("peak_memory_bytes", **{bound: limit})  # type: ignore[arg-type]
    (found,) = check([requirement], {"exec_time_s": 0.04, "cpu_time_s": 0.03})
    assert (found.bound, found.actual, found.met) == (bound, None, None)
    assert found.note == "not measured: the run was too short"
    assert judge(result_of(Verdict.PASSED), [found]) is Verdict.PASSED
    assert judge(result_of(Verdict.PASSED), [found], inconclusive_fails=True) is Verdict.FAILED
    (found,) = check([requirement], {"exec_time_s": 40.0})
    assert (found.met, found.missing) == (False, True)


def test_nearest_names_are_found_by_spelling_case_and_part() -> None:
    names = ["exec_time_s", "Throughput", "task_read_process_time_sum", "peak_memory_bytes"]
    assert nearest_names("exec_tme_s", names) == ["exec_time_s"]
    assert nearest_names("THROUGHPUT", names) == ["Throughput"]
    assert nearest_names("process_time", names)[-1] == "task_read_process_time_sum"
    assert nearest_names("x", names) == []


def test_nearest_names_are_found_quickly_among_very_many() -> None:
    names = [f"task_stage_{number}_process_time_{part}" for number in range(3333) for part in ("sum", "mean", "std")]
    started = time.monotonic()
    assert "task_stage_17_process_time_sum" in nearest_names("task_stage_17_proces_time_sum", names)
    assert time.monotonic() - started < 10


def test_a_script_that_says_it_failed_fails_without_a_requirement() -> None:
    (found,) = check([], {"is_success": False})
    assert (found.metric, found.met) == ("is_success", False)
    assert len(check([Requirement("is_success", exact_value=True)], {"is_success": False})) == 1
    assert len(check([Requirement("is_success", exact_value=False)], {"is_success": False})) == 2
    assert check([], {"is_success": True}) == check([], {"is_success": 1}) == check([], {"success": False}) == ()


@pytest.mark.parametrize(
    ("said", "note"),
    [
        (0, "is a number, not true or false"),
        (None, "is null, not true or false"),
        ("", "is text, not true or false"),
        ("no", "is text, not true or false"),
        ("True", "is text, not true or false"),
        (math.nan, "is NaN, not true or false"),
    ],
)
def test_only_what_means_true_is_a_success(said: Scalar, note: str) -> None:
    (found,) = check([], {"is_success": said})
    assert (found.actual, found.met, found.note) == (said, False, note)
    assert judge(result_of(Verdict.PASSED, is_success=said), []) is Verdict.FAILED


def test_a_run_passes_when_all_is_met_and_fails_otherwise() -> None:
    good, bad = check([Requirement("a", min_value=1), Requirement("a", min_value=3)], {"a": 2})
    passed = result_of(Verdict.PASSED, is_success=True)
    assert judge(passed, []) is judge(passed, [good]) is Verdict.PASSED
    assert judge(passed, [good, bad]) is Verdict.FAILED
    assert judge(result_of(Verdict.PASSED, is_success=False), []) is Verdict.FAILED


def test_an_inconclusive_gate_fails_a_run_only_where_that_is_asked_for() -> None:
    passed = result_of(Verdict.PASSED, is_success=True)
    open_gate = Check("a", "max_regression", 0.1, 2, met=None)
    assert judge(passed, [open_gate]) is Verdict.PASSED
    assert judge(passed, [open_gate], inconclusive_fails=True) is Verdict.FAILED


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict is not Verdict.PASSED])
def test_a_run_that_did_not_end_well_keeps_its_own_verdict(verdict: Verdict) -> None:
    (bad,) = check([Requirement("a", min_value=3)], {})
    assert judge(result_of(verdict, is_success=False), [bad]) is verdict
