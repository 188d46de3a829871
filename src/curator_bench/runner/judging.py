"""Judges runs: each by its requirements, and the last runs of an item together by its gates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from curator_bench.collection.benchmarks import BENCHMARKS
from curator_bench.collection.items import UNJUDGED, has_gates
from curator_bench.errors import BenchError
from curator_bench.masking import Mask
from curator_bench.runner.disturbing import disturbed_by
from curator_bench.runner.policy import GateState
from curator_bench.runner.run_records import add_properties, note_run
from curator_bench.values import Check, Entry, RunRecord, RunResult, Scalar, Verdict
from curator_bench.verdict.failure_table import failure_table
from curator_bench.verdict.requirements import check, judge
from curator_bench.words import printable_lines

if TYPE_CHECKING:
    from curator_bench.runner.gates import Gates, Judged

_JUDGE = pytest.StashKey["Judge"]()
_OF_PYTEST_TIMEOUT = "from pytest-timeout."
_LONGEST_ERROR = 4000


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run with its checks. `texts` explain those that failed or are inconclusive."""

    result: RunResult
    checks: tuple[Check, ...] = ()
    texts: tuple[str, ...] = ()
    inconclusive_fails: bool = False

    @property
    def verdict(self) -> Verdict:
        return judge(self.result, self.checks, inconclusive_fails=self.inconclusive_fails)


def judge_of(item: pytest.Item, entry: Entry) -> Judge:
    """Return the judge of all runs of the item."""
    if _JUDGE not in item.stash:
        new_gates = (
            (lambda: _gates_of(item, entry)) if has_gates(entry, item.config.stash[BENCHMARKS].settings) else None
        )
        item.stash[_JUDGE] = Judge(item.config, entry, new_gates)
    return item.stash[_JUDGE]


def _gates_of(item: pytest.Item, entry: Entry) -> Gates:
    from curator_bench.runner.gates import gates_of

    return gates_of(item, entry)


def _facts_required(entry: Entry) -> dict[str, Scalar]:
    """Return the facts of a run that requirements may name like metrics, as in NeMo Curator's runner.

    Requirements are checked only of a run that has succeeded so far.
    """
    facts: dict[str, Scalar] = {"name": entry.name, "success": True, "timed_out": False}
    named = {requirement.metric for requirement in entry.requirements}
    return {name: value for name, value in facts.items() if name in named}


def forget_judge(item: pytest.Item) -> None:
    """Forget earlier runs of the item, for plugins that repeat tests."""
    if _JUDGE in item.stash:
        del item.stash[_JUDGE]


class Judge:
    """Judges the runs of one item, each by its requirements once."""

    def __init__(self, config: pytest.Config, entry: Entry | None, new_gates: Callable[[], Gates] | None) -> None:
        """`new_gates` is called when the gates are first needed; None if there are none."""
        self._requirements, self._new_gates = entry.requirements if entry else (), new_gates
        self._facts = _facts_required(entry) if entry else {}
        self._config = config
        self._inconclusive_fails = config.stash[BENCHMARKS].settings.inconclusive_fails
        self._checked: tuple[Mapping[str, Scalar], tuple[Check, ...]] | None = None
        """The metrics that were last checked, and their checks."""
        self._gates: Gates | None = None
        self._gated: list[RunResult] = []
        """The runs that the gates judge together, in order."""
        self._found: Judged | None = None

    def by_requirements(self, result: RunResult) -> Outcome:
        """Judge a run by its requirements, without gates."""
        checks = self._checks_of(result.metrics) if result.verdict is Verdict.PASSED else ()
        return Outcome(result, checks, inconclusive_fails=self._inconclusive_fails)

    def _checks_of(self, metrics: Mapping[str, Scalar]) -> tuple[Check, ...]:
        if self._checked is None or self._checked[0] is not metrics:
            self._checked = metrics, check(self._requirements, {**self._facts, **metrics})
        return self._checked[1]

    def gates(self, result: RunResult) -> GateState:
        """Ask the gates about this run and the earlier ones they know."""
        return self._ask_gates(result).state

    def so_far(self, result: RunResult) -> Outcome:
        """Judge a run that will be judged again as the last one: by its requirements and gates."""
        if self._new_gates is not None and result.verdict is Verdict.PASSED:
            self._ask_gates(result)
        return self.of_another(result)

    def of_another(self, result: RunResult) -> Outcome:
        """Judge a run that is not the last. Gates are included if they were asked about it."""
        outcome = self.by_requirements(result)
        is_gated = self._gated and self._gated[-1] is result and self._found is not None
        return self._with_gates(outcome, self._found) if is_gated and self._found else outcome

    def of_last(self, result: RunResult) -> Outcome:
        """Judge the last run by requirements and gates. A fixture may have changed its metrics since it ran."""
        outcome = self.by_requirements(result)
        if result.verdict is not Verdict.PASSED or self._new_gates is None:
            return outcome
        found = self._ask_gates(result)
        assert self._gates is not None
        self._gates.note_discoveries(found)
        changed = self._gates.changes(found, result.params)
        outcome = self._with_gates(outcome, found)
        return replace(outcome, result=replace(outcome.result, changed=changed))

    def _ask_gates(self, result: RunResult) -> Judged:
        if self._gated and self._gated[-1].attempt == result.attempt:
            self._gated.pop()
        self._gated.append(result)
        if self._gates is None:
            assert self._new_gates
            self._gates = self._new_gates()
        are_disturbed = [bool(self._disturbed(run)) for run in self._gated]
        counted = [run.metrics for run, is_one in zip(self._gated, are_disturbed, strict=True) if not is_one]
        self._found = self._gates.judge(counted or [result.metrics], disturbed=are_disturbed)
        return self._found

    def _disturbed(self, result: RunResult) -> str | None:
        return disturbed_by(self._config, result.verdict, result.metrics)

    def _with_gates(self, outcome: Outcome, found: Judged) -> Outcome:
        warnings = self._gates.warnings if self._gates else ()
        result = replace(outcome.result, warnings=(*outcome.result.warnings, *warnings))
        return replace(outcome, result=result, checks=(*outcome.checks, *found.checks), texts=found.texts)


def check_run(item: pytest.Item, entry: Entry, result: RunResult) -> None:
    """Judge the last run of an item. Unless it passed, fail the item with a message instead of a traceback."""
    if UNJUDGED in item.stash:
        del item.stash[UNJUDGED]
    outcome = judge_of(item, entry).of_last(result)
    run = note_run(item, entry, outcome.result, outcome.verdict, outcome.checks)
    add_properties(item, run)
    if run.verdict is Verdict.SKIPPED:
        # Show where the entry is in the matrix; a place in this file would tell the user nothing.
        raise pytest.skip.Exception(run.error, _use_item_location=True)
    if run.verdict is not Verdict.PASSED:
        mask = item.config.stash[BENCHMARKS].mask
        pytest.fail(_why(run, map(mask.hide, outcome.texts)), pytrace=False)


def judge_by_outcome(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Judge the run of a test that did not call `judge_run` by the outcome of the test.

    A run that did not pass keeps its verdict, whatever its test does.
    """
    entry, result = item.stash[UNJUDGED]
    verdict = judge(result, ())
    if verdict is Verdict.PASSED and not report.passed:
        error = shown_error(error_of(call, report), item.config.stash[BENCHMARKS].mask)
        verdict, result = verdict_of(call, report), replace(result, error=error)
    add_properties(item, note_run(item, entry, result, verdict, ()))


def verdict_of(call: pytest.CallInfo[None], report: pytest.TestReport) -> Verdict:
    """Return the verdict of a phase that did not pass."""
    if report.skipped:
        return Verdict.SKIPPED
    error = call.excinfo.value if call.excinfo else None
    if isinstance(error, KeyboardInterrupt):  # raised under --pdb, too
        return Verdict.INTERRUPTED
    if isinstance(error, pytest.fail.Exception) and _OF_PYTEST_TIMEOUT in str(error.msg):
        return Verdict.TIMEOUT
    if call.when != "call" or isinstance(error, BenchError):
        return Verdict.ERROR
    return Verdict.FAILED if isinstance(error, AssertionError | pytest.fail.Exception | None) else Verdict.CRASHED


def error_of(call: pytest.CallInfo[None], report: pytest.TestReport) -> str:
    """Return the full reason why a phase did not pass. `shown_error` masks and shortens it."""
    if call.excinfo is None:
        return report.longreprtext
    error = call.excinfo.value
    said = error.msg if isinstance(error, pytest.fail.Exception | pytest.skip.Exception) else None
    return said or call.excinfo.exconly(tryshort=True)


def shown_error(error: str, mask: Mask) -> str:
    """Return the error with secrets masked, and not too long."""
    return mask.hide(error)[:_LONGEST_ERROR]


def changes_text(changed: Sequence[str]) -> str:
    """Word what changed as a block below the gates' texts."""
    return "\n".join(
        ["What changed between the last run before and the first after:", *(f"    {one}" for one in changed)]
    )


def _missed(checks: Sequence[Check]) -> str:
    counts = {
        "not met": sum(one.is_unmet for one in checks),
        "inconclusive": sum(one.is_inconclusive for one in checks),
    }
    return ", ".join(
        f"{count} of {len(checks)} requirements {'is' if count == 1 else 'are'} {what}"
        for what, count in counts.items()
        if count
    )


def _why(run: RunRecord, texts: Iterable[str]) -> str:
    if run.verdict is Verdict.FAILED:
        headline = f"{run.name}: failed: {_missed(run.requirements)}"
        changed = [changes_text(run.changed)] if run.changed else []
        return "\n\n".join([headline, failure_table(run.requirements), *texts, *changed, f"Results: {run.directory}"])
    lines = [f"{run.name}: {run.verdict}: {run.error}"]
    if run.log_tail:
        lines += ["", f"The last lines of {run.log_path}:", *(f"  {line}" for line in run.log_tail)]
    elif run.log_path:
        lines += ["", f"It printed nothing; its log is {run.log_path}"]
    return printable_lines("\n".join(lines))
