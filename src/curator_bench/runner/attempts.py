"""The runs of one item: each is counted in, policy says what comes next, and the last is judged with its gates."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from curator_bench.collection import BENCHMARKS
from curator_bench.runner.outcomes import Outcome, has_gates, of_requirements
from curator_bench.runner.policy import (
    Allowance,
    Decision,
    GateState,
    Happened,
    Next,
    Spent,
    asks_gates,
    is_confirming,
    next_step,
)
from curator_bench.runner.reporting import note_run
from curator_bench.values import Entry, RunResult, Verdict

if TYPE_CHECKING:
    from curator_bench.runner.gating import Gates, Judged

ATTEMPTS = pytest.StashKey["Attempts"]()
"""The runs of an item that its `run_result` has conducted."""
_LEDGER = pytest.StashKey["Ledger"]()


class Ledger:
    """How long the runs of this process took so far."""

    def __init__(self) -> None:
        self.spent = Spent()

    def add(self, runs_s: float = 0.0, confirming_s: float = 0.0) -> None:
        self.spent = Spent(self.spent.runs_s + runs_s, self.spent.confirming_s + confirming_s)


def attempts_of(item: pytest.Item, entry: Entry) -> Attempts:
    """The runs of the item, which begin here where there are none yet."""
    if ATTEMPTS not in item.stash:
        item.stash[ATTEMPTS] = Attempts(item, entry)
    return item.stash[ATTEMPTS]


class Attempts:
    """Not for several threads."""

    def __init__(self, item: pytest.Item, entry: Entry) -> None:
        self._item, self._entry = item, entry
        self._allowed = _allowance(item, entry)
        self._happened = Happened()
        self._ledger = item.config.stash.setdefault(_LEDGER, Ledger())
        self._expected_s = 0.0
        """The share of the budget that a confirming run under way has reserved."""
        self._confirming_s = 0.0
        self._gated: list[RunResult] = []
        """The last of the runs that were asked for, and those that confirm it."""
        self._gates: Gates | None = None
        self._not_confirmed = ""

    def take(self, result: RunResult, *, is_hopeless: bool = False, may_confirm: bool = True) -> Decision:
        """Count a run in and say what comes next; where that is another run, this one is recorded as it is."""
        outcome = of_requirements(self._item, self._entry, result)
        allowed = self._allowed if may_confirm else replace(self._allowed, confirm=0)
        self._happened = self._happened.after(outcome.verdict, result.duration_s, is_hopeless=is_hopeless)
        self._note_seconds(result.duration_s)
        if outcome.verdict is Verdict.PASSED and self._happened.measured >= allowed.runs:
            self._gated.append(result)
        if asks_gates(self._happened, allowed) and has_gates(self._item, self._entry):
            self._happened = replace(self._happened, gates=self._judge_gates().state)
        decision = next_step(self._happened, allowed, self._ledger.spent)
        self._go_on(decision, outcome)
        return decision

    def _note_seconds(self, seconds: float) -> None:
        """Of a run that confirms, what it took comes in the place of what it was expected to take."""
        if self._expected_s or is_confirming(self._happened, self._allowed):
            self._ledger.add(seconds, seconds - self._expected_s)
            self._confirming_s += seconds
            self._expected_s = 0.0
        else:
            self._ledger.add(seconds)

    def _go_on(self, decision: Decision, outcome: Outcome) -> None:
        if decision.next is Next.JUDGE:
            self._not_confirmed = decision.reason
            return
        if decision.next is Next.CONFIRM:
            outcome = self._with_gates(outcome, self._judge_gates())
            self._expected_s = outcome.result.duration_s
            self._ledger.add(confirming_s=self._expected_s)
        note_run(self._item, self._entry, outcome.result, outcome.verdict, outcome.checks)

    def note_not_measured_again(self, reason: str) -> RunResult:
        """A run that was to confirm never began; the one before it is judged alone."""
        self._ledger.add(confirming_s=-self._expected_s)
        self._expected_s = 0.0
        before = self._gated[-1]
        return replace(before, warnings=(*before.warnings, f"it could not be measured again where it was: {reason}"))

    def judged(self, result: RunResult) -> Outcome:
        """The last run with its requirements and gates; a fixture may have changed it since it was taken."""
        outcome = of_requirements(self._item, self._entry, replace(result, confirming_s=self._confirming_s))
        if result.verdict is not Verdict.PASSED or not has_gates(self._item, self._entry):
            return outcome
        if not self._gated or self._gated[-1] != result:
            self._replace_last(result)
        found = self._judge_gates()
        assert self._gates is not None
        self._gates.note_discoveries(found)
        return self._with_gates(outcome, found)

    def _replace_last(self, result: RunResult) -> None:
        """It may have other metrics than before, so the gates are asked anew."""
        if self._gated and self._gated[-1].attempt == result.attempt:
            self._gated.pop()
        self._gated.append(result)
        self._gates = None

    def _judge_gates(self) -> Judged:
        if self._gates is None:
            from curator_bench.runner.gating import gates_of

            self._gates = gates_of(self._item, self._entry, self._gated[-1].metrics)
        return self._gates.judge([run.metrics for run in self._gated])

    def _with_gates(self, outcome: Outcome, found: Judged) -> Outcome:
        assert self._gates is not None
        more = [*self._gates.warnings]
        if found.state is not GateState.PASSED and self._not_confirmed:
            more.append(self._not_confirmed)
        result = replace(outcome.result, warnings=(*outcome.result.warnings, *more))
        return replace(outcome, result=result, checks=(*outcome.checks, *found.checks), texts=found.texts)


def _allowance(item: pytest.Item, entry: Entry) -> Allowance:
    """Only who has a run judged has it measured again."""
    settings = item.config.stash[BENCHMARKS].settings
    is_judged = "judge_run" in getattr(item, "fixturenames", ())
    return Allowance(
        retries=entry.retries,
        runs=settings.runs,
        confirm=settings.confirm if is_judged and has_gates(item, entry) else 0,
        confirm_budget_s=settings.confirm_budget_s,
        shares=getattr(item.config, "workerinput", {}).get("workercount", 1),
    )
