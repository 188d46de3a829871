"""The table of a failure: aligned, in 80 columns, the unmet first, in numbers people can read."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_bench.values import Check, Requirement, Scalar
from curator_bench.verdict.failure_table import failure_table, readable
from curator_bench.verdict.requirements import check

SCALARS: st.SearchStrategy[Scalar] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=200)
)
CHECKS = st.builds(
    Check,
    metric=st.text(max_size=300),
    bound=st.sampled_from(["min_value", "max_value", "exact_value"]),
    limit=SCALARS,
    actual=SCALARS,
    met=st.none() | st.booleans(),
    missing=st.booleans(),
    tolerance=st.none() | st.floats(),
    off_by=st.none() | st.integers(min_value=0) | st.floats(min_value=0),
    off_by_fraction=st.none() | st.floats(min_value=0),
    note=st.text(max_size=200),
)


def test_the_table_says_what_was_missed_and_by_how_much() -> None:
    requirements = [
        Requirement("num_removed", exact_value=12345678),
        Requirement("throughput_docs_per_sec", min_value=200),
        Requirement("recall", exact_value=0.97, tolerance=0.01),
        Requirement("time_taken", max_value=60),
        Requirement("is_success", exact_value=True),
    ]
    metrics: dict[str, Scalar] = {
        "num_removed": 12345678,
        "throughput_docs_per_sec": 183.2,
        "recall": 0.93,
        "time_taken_s": 1,
        "is_success": False,
    }
    assert failure_table(check(requirements, metrics)).splitlines() == [
        "metric                   bound           actual      off by",
        "throughput_docs_per_sec  >= 200          183.2       16.8 (8.4 %)",
        "recall                   == 0.97 ± 0.01  0.93        0.04 (4.1 %)",
        "time_taken               <= 60           missing     -",
        "    no such metric; nearest: time_taken_s",
        "is_success               == true         false       -",
        "num_removed              == 12,345,678   12,345,678  met",
    ]


def test_values_that_look_alike_are_shown_in_full() -> None:
    close = check([Requirement("a", max_value=0.97)], {"a": 0.9700000001})
    assert "0.9700000001" in failure_table(close)
    huge = failure_table(check([Requirement("a", exact_value=2**70)], {"a": 2**70 + 1}), width=120)
    assert "1,180,591,620,717,411,303,424" in huge
    assert "1,180,591,620,717,411,303,425" in huge


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234567, "1,234,567"),
        (2**70, "1.18059e+21"),
        (1234567.891, "1,234,568"),
        (1234.56789, "1,234.57"),
        (0.000012345, "1.2345e-05"),
        (3.0, "3"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (True, "true"),
        (None, "null"),
        ("fast", '"fast"'),
        ("a\x1b[31m\n", r'"a\x1b[31m\n"'),
    ],
)
def test_values_are_readable(value: Scalar, text: str) -> None:
    assert readable(value) == text


def test_a_number_too_long_for_python_to_print_is_readable() -> None:
    assert readable(10**5000) == "1.00000e+5000"


@given(checks=st.lists(CHECKS, max_size=5), width=st.integers(min_value=60, max_value=200))
def test_any_table_keeps_to_its_width_and_to_plain_text(checks: list[Check], width: int) -> None:
    table = failure_table(checks, width=width)
    assert all(len(line) <= width for line in table.splitlines())
    assert all(char.isprintable() for line in table.split("\n") for char in line)
    table.encode()


@given(names=st.lists(st.from_regex(r"[a-z_.]{1,90}", fullmatch=True), min_size=1, max_size=6, unique=True))
def test_no_name_is_cut_off(names: list[str]) -> None:
    table = failure_table([Check(name, "min_value", 1, 0, met=False, off_by=1) for name in names])
    column = table.splitlines()[0].index("bound")
    assert "".join(line[:column].strip() for line in table.splitlines()[1:]) == "".join(names)


@given(st.permutations([True, True, False, False]))
def test_the_unmet_come_first_in_their_own_order(met: list[bool]) -> None:
    checks = [Check(f"metric{index}", "min_value", 1, 1, met=is_met) for index, is_met in enumerate(met)]
    shown = [int(number) for number in re.findall(r"metric(\d)", failure_table(checks))]
    assert shown == sorted(range(4), key=lambda index: met[index])


def test_what_is_inconclusive_stands_after_the_unmet_with_what_would_decide_it() -> None:
    checks = [
        Check("recall", "min_value", 0.9, 0.95, met=True),
        Check("time_s", "max_regression", 0.1, 4.2, met=None, note="5 runs more would decide"),
        Check("rate", "min_value", 2, 1, met=False, off_by=1),
    ]
    _, unmet, inconclusive, note, met = failure_table(checks).splitlines()
    assert unmet.split() == ["rate", ">=", "2", "1", "1"]
    assert inconclusive.split() == ["time_s", "<=", "10", "%", "worse", "4.2", "inconclusive"]
    assert note.strip() == "5 runs more would decide"
    assert met.endswith("met")


def test_a_table_without_checks_is_its_heading() -> None:
    assert failure_table([]) == "metric  bound  actual  off by"


def test_a_gate_shows_the_word_of_its_judgement_and_no_other() -> None:
    checks = [
        Check("slow_s", "max_regression", 0.1, 4.2, met=False, off_by_fraction=0.27, says="regression"),
        Check("fast_s", "max_regression", 0.1, 0.9, met=True, says="improvement"),
        Check("flat_s", "max_regression", 0.1, 1.0, met=True, says="no change"),
        Check("new_s", "max_regression", 0.1, 1.0, met=True, says="no history"),
        Check("crept_s", "max_drift", 0.1, 1.2, met=False, off_by_fraction=0.2, says="drift"),
    ]
    last = {line.split()[0]: line for line in failure_table(checks).splitlines()[1:]}
    assert last["slow_s"].endswith("regression, 27 %")
    assert last["crept_s"].endswith("drift, 20 %")
    assert [last[name].endswith(said) for name, said in (("fast_s", "improvement"), ("flat_s", "no change"))] == [
        True,
        True,
    ]
    assert last["new_s"].endswith("no history")
