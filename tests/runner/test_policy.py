"""The one policy of what follows a run: tables of what people expect, and properties that hold for every history."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from curator_bench.runner.policy import (
    Allowance,
    Decision,
    GateState,
    Happened,
    Next,
    Profile,
    Spent,
    asks_gates,
    asks_gates_to_profile,
    budget_s,
    is_confirming,
    next_step,
)
from curator_bench.values import Verdict

PASSED, FAILED, ERROR = Verdict.PASSED, Verdict.FAILED, Verdict.ERROR
ENDS = (Verdict.CRASHED, Verdict.TIMEOUT, Verdict.INTERRUPTED, Verdict.SKIPPED)
HOURS = 3600.0


def once(verdict: Verdict, gates: GateState | None = None, seconds: float = 1.0, **more: bool) -> Happened:
    return replace(Happened().after(verdict, seconds, **more), gates=gates)


@pytest.mark.parametrize(
    ("happened", "allowed", "expected"),
    [
        (once(PASSED), Allowance(), Next.JUDGE),
        (once(FAILED), Allowance(retries=3, confirm=3), Next.JUDGE),
        (once(ERROR), Allowance(), Next.JUDGE),
        (once(ERROR), Allowance(retries=1), Next.RETRY),
        (once(ERROR, is_hopeless=True), Allowance(retries=1), Next.JUDGE),
        (once(ERROR).after(ERROR, 1.0), Allowance(retries=1), Next.JUDGE),
        (once(PASSED), Allowance(runs=2), Next.RUN_AGAIN),
        (once(FAILED), Allowance(runs=2), Next.RUN_AGAIN),
        (once(FAILED).after(FAILED, 1.0), Allowance(runs=2), Next.JUDGE),
        (once(ERROR).after(PASSED, 1.0), Allowance(runs=2, retries=1), Next.RUN_AGAIN),
        (once(PASSED, GateState.FAILED), Allowance(confirm=2), Next.CONFIRM),
        (once(PASSED, GateState.INCONCLUSIVE), Allowance(confirm=2), Next.CONFIRM),
        (once(PASSED, GateState.PASSED), Allowance(confirm=2), Next.JUDGE),
        (once(PASSED, GateState.FAILED), Allowance(confirm=0), Next.JUDGE),
        (once(PASSED), Allowance(confirm=2), Next.JUDGE),
    ],
)
def test_what_comes_after_the_first_runs(happened: Happened, allowed: Allowance, expected: Next) -> None:
    assert next_step(happened, allowed).next is expected


@pytest.mark.parametrize("verdict", ENDS)
def test_what_crashed_timed_out_or_was_stopped_is_judged_at_once(verdict: Verdict) -> None:
    assert next_step(once(verdict), Allowance(retries=5, runs=5, confirm=5)) == Decision(Next.JUDGE)


@pytest.mark.parametrize(
    ("happened", "allowed", "expected"),
    [
        (once(PASSED), Allowance(profile=Profile.ALWAYS), Next.PROFILE),
        (once(FAILED), Allowance(profile=Profile.ALWAYS), Next.PROFILE),
        (once(ERROR), Allowance(profile=Profile.ALWAYS), Next.JUDGE),
        (once(Verdict.CRASHED), Allowance(profile=Profile.ALWAYS), Next.JUDGE),
        (once(PASSED), Allowance(profile=Profile.ALWAYS, runs=2), Next.RUN_AGAIN),
        (once(PASSED, GateState.FAILED), Allowance(profile=Profile.REGRESSION, confirm=1), Next.CONFIRM),
        (once(PASSED, GateState.FAILED), Allowance(profile=Profile.REGRESSION), Next.PROFILE),
        (once(PASSED, GateState.INCONCLUSIVE), Allowance(profile=Profile.REGRESSION), Next.JUDGE),
        (once(PASSED, GateState.PASSED), Allowance(profile=Profile.REGRESSION), Next.JUDGE),
        (once(FAILED), Allowance(profile=Profile.REGRESSION), Next.JUDGE),
    ],
)
def test_what_is_measured_is_profiled_last_and_a_regression_once_it_is_confirmed(
    happened: Happened, allowed: Allowance, expected: Next
) -> None:
    assert next_step(happened, allowed).next is expected


def test_the_gates_are_asked_about_the_run_that_confirms_if_they_decide_what_is_profiled() -> None:
    second = once(PASSED).after(PASSED, 1.0)
    allowed = Allowance(confirm=1, profile=Profile.REGRESSION)
    assert not asks_gates(second, allowed)
    assert asks_gates_to_profile(second, allowed)
    assert not asks_gates_to_profile(second, replace(allowed, profile=Profile.ALWAYS))
    assert next_step(replace(second, gates=GateState.FAILED), allowed).next is Next.PROFILE


def test_two_runs_that_fail_together_are_certain_and_an_inconclusive_gate_is_measured_as_often_as_allowed() -> None:
    second = once(PASSED).after(PASSED, 1.0)
    allowed = Allowance(confirm=2)
    assert next_step(replace(second, gates=GateState.FAILED), allowed).next is Next.JUDGE
    assert next_step(replace(second, gates=GateState.INCONCLUSIVE), allowed).next is Next.CONFIRM
    third = second.after(PASSED, 1.0)
    assert next_step(replace(third, gates=GateState.INCONCLUSIVE), allowed).next is Next.JUDGE


def test_a_disturbed_run_is_measured_again_as_often_as_gates_may_be_confirmed() -> None:
    disturbed, allowed = once(PASSED, is_disturbed=True), Allowance(confirm=2)
    assert not asks_gates(disturbed, allowed), "it decides nothing"
    assert next_step(disturbed, allowed).next is Next.MEASURE_AGAIN
    assert next_step(disturbed, Allowance()).next is Next.JUDGE
    twice = disturbed.after(PASSED, 1.0, is_disturbed=True)
    assert next_step(twice, allowed).next is Next.MEASURE_AGAIN
    assert next_step(twice.after(PASSED, 1.0, is_disturbed=True), allowed).next is Next.JUDGE
    assert next_step(disturbed, allowed, Spent(600.0, 600.0)).next is Next.JUDGE


def test_the_run_that_replaces_a_disturbed_one_is_confirmed_like_a_first_one() -> None:
    again = once(PASSED, is_disturbed=True).after(PASSED, 1.0)
    assert asks_gates(again, Allowance(confirm=2))
    assert next_step(replace(again, gates=GateState.FAILED), Allowance(confirm=2)).next is Next.CONFIRM
    assert next_step(replace(again, gates=GateState.PASSED), Allowance(confirm=2)).next is Next.JUDGE


def test_a_disturbed_run_takes_away_none_of_the_runs_that_confirm() -> None:
    happened = once(PASSED, is_disturbed=True).after(PASSED, 1.0, is_disturbed=True).after(PASSED, 1.0)
    failed = replace(happened, gates=GateState.FAILED)
    assert next_step(failed, Allowance(confirm=2)).next is Next.CONFIRM
    certain = replace(happened.after(PASSED, 1.0), gates=GateState.FAILED)
    assert next_step(certain, Allowance(confirm=2)).next is Next.JUDGE


def test_an_error_while_confirming_is_tried_again_like_any_other() -> None:
    happened = once(PASSED).after(ERROR, 1.0)
    assert next_step(happened, Allowance(retries=1, confirm=2)).next is Next.RETRY
    assert next_step(happened, Allowance(confirm=2)).next is Next.JUDGE


@pytest.mark.parametrize(
    ("allowed", "spent", "expected"),
    [
        (Allowance(), Spent(), 600.0),
        (Allowance(), Spent(runs_s=2 * HOURS), 1440.0),
        (Allowance(confirm_budget_s=30.0), Spent(runs_s=2 * HOURS), 30.0),
        (Allowance(confirm_budget_s=0.0), Spent(), 0.0),
        (Allowance(shares=4), Spent(), 150.0),
        (Allowance(shares=4), Spent(runs_s=HOURS), 720.0),
        (Allowance(shares=4, confirm_budget_s=100.0), Spent(), 25.0),
    ],
)
def test_confirming_may_take_ten_minutes_or_a_fifth_of_the_session_or_what_was_said(
    allowed: Allowance, spent: Spent, expected: float
) -> None:
    assert budget_s(allowed, spent) == expected


def test_a_run_that_would_exceed_the_budget_is_not_measured_again_and_says_so() -> None:
    happened, allowed = once(PASSED, GateState.FAILED, seconds=400.0), Allowance(confirm=2)
    assert next_step(happened, allowed, Spent(400.0, 200.0)).next is Next.CONFIRM
    decision = next_step(happened, allowed, Spent(400.0, 201.0))
    assert decision.next is Next.JUDGE
    assert "not measured again: 400 s more would exceed the budget of 600 s" in decision.reason


def test_whatever_happens_each_reason_is_used_as_often_as_allowed_and_the_last_run_is_judged() -> None:
    """Whole entries are run by the policy; what their runs and gates say is drawn at random."""
    for seed in range(2_000):
        run_an_entry(random.Random(seed))


def run_an_entry(chance: random.Random) -> None:
    allowed = Allowance(chance.randrange(4), chance.randrange(1, 4), chance.randrange(4), chance.choice([None, 5.0]))
    happened, spent, steps = Happened(), Spent(), Counter[Next]()
    verdicts: list[Verdict] = []
    while True:
        verdicts.append(chance.choice([PASSED, PASSED, PASSED, FAILED, ERROR, *ENDS[:1]]))
        happened = happened.after(verdicts[-1], chance.random(), is_disturbed=chance.random() < 0.3)
        is_confirming_now = is_confirming(happened, allowed)
        spent = Spent(spent.runs_s + happened.seconds, spent.confirming_s + happened.seconds * is_confirming_now)
        if asks_gates(happened, allowed):
            happened = replace(happened, gates=chance.choice(list(GateState)))
        decision = next_step(happened, allowed, spent)
        assert decision == next_step(happened, allowed, spent)
        steps[decision.next] += 1
        if decision.next is Next.JUDGE:
            break
        assert decision.reason
    assert steps[Next.RETRY] <= allowed.retries
    assert steps[Next.RUN_AGAIN] <= allowed.runs - 1
    assert steps[Next.CONFIRM] + steps[Next.MEASURE_AGAIN] <= allowed.confirm + min(happened.disturbed, allowed.confirm)
    assert steps[Next.JUDGE] == 1
    assert all(verdict in (PASSED, FAILED, ERROR) for verdict in verdicts[:-1])
    assert sum(steps.values()) == len(verdicts)


def test_a_larger_budget_never_means_fewer_runs() -> None:
    chance = random.Random(7)
    for _ in range(500):
        happened = once(PASSED, chance.choice(list(GateState)), seconds=chance.uniform(0, 2000))
        spent = Spent(chance.uniform(0, 9000), chance.uniform(0, 2000))
        confirmed = [
            next_step(happened, Allowance(confirm=2, confirm_budget_s=budget), spent).next is Next.CONFIRM
            for budget in (0.0, 60.0, 600.0, 6000.0)
        ]
        assert confirmed == sorted(confirmed)
