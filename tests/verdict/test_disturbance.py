"""What disturbs a run, and what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_bench.values import Scalar
from curator_bench.verdict.disturbance import disturbance, disturbed, is_machine_disturbed


def figures(
    own: float, lost: float, *, seconds: float = 10.0, others: float = 0.0, **more: Scalar
) -> dict[str, Scalar]:
    named: dict[str, Scalar] = {
        "seconds": seconds,
        "cpu_s": own,
        "cpu_wait_for_others_s": lost,
        "others_cpu_s": others,
        "stolen_s": 0.0,
        **more,
    }
    return {f"machine.{name}": value for name, value in named.items()}


def test_a_run_that_waited_for_others_is_disturbed_and_it_is_said_by_whom_and_how_much() -> None:
    text = disturbed(figures(8.0, 2.0, others=12.0) | {"machine.others": "cc1plus 9.1 s, ld 2.0 s"})
    assert text == (
        "it waited 2.0 s for processors that others had, 20% of its processor time "
        "(they used 12.0 s; most of it took cc1plus 9.1 s, ld 2.0 s)"
    )


def test_a_traced_run_is_disturbed_however_short_it_is() -> None:
    traced: dict[str, Scalar] = {"machine.traced_by": "coverage"}
    assert disturbed(traced) == "its Python code was traced by coverage, which slows it down"


def test_a_neighbour_that_lets_nobody_wait_is_no_disturbance() -> None:
    assert disturbed(figures(10.0, 0.1, others=10.0)) == ""


def test_stolen_time_is_a_disturbance_by_the_runs_part_of_all_work() -> None:
    assert disturbed(figures(10.0, 0.0, stolen_s=2.0)) == (
        "the host of this virtual machine took 2.0 s, 17% of the run's processor time"
    )
    found = disturbance(figures(1.0, 0.0, others=9.0, stolen_s=1.0))
    assert found is not None
    assert found.by_host == pytest.approx(0.1 / 1.1)


def test_of_a_run_that_hardly_computes_nothing_is_said() -> None:
    assert disturbed(figures(0.1, 0.1)) is None
    assert disturbed(figures(0.2, 0.1, seconds=60.0)) == ""


@pytest.mark.parametrize("lacks", ["seconds", "cpu_s", "cpu_wait_for_others_s"])
def test_what_was_not_measured_is_not_known(lacks: str) -> None:
    whole = figures(8.0, 2.0)
    del whole[f"machine.{lacks}"]
    assert disturbed(whole) is None


@given(
    st.dictionaries(st.sampled_from(list(figures(1.0, 1.0))), st.floats() | st.text() | st.booleans() | st.integers())
)
def test_whatever_a_metric_holds_is_judged_without_an_error(metrics: dict[str, Scalar]) -> None:
    text = disturbed(metrics)
    assert text is None or isinstance(text, str)


@pytest.mark.parametrize(
    ("recent", "is_one"),
    [
        ([], False),
        ([True, True], False),
        ([True, True, False], True),
        ([True, False, True, False], False),
        ([None, None, True, True, True], True),
        ([True] * 10 + [False] * 9, False),
    ],
)
def test_a_machine_is_disturbed_if_most_of_its_recent_runs_were(recent: list[bool | None], is_one: bool) -> None:
    assert is_machine_disturbed(recent) is is_one
