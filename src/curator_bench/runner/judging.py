"""RunResult to a passed or failed item: what the function of an entry's item does."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from curator_bench.collection import BENCHMARKS, UNJUDGED
from curator_bench.runner.attempts import attempts_of
from curator_bench.runner.outcomes import Outcome, masked_outcome
from curator_bench.runner.reporting import add_properties, note_run
from curator_bench.values import Check, Entry, RunResult, Verdict
from curator_bench.verdict.failure_table import failure_table


def check_run(item: pytest.Item, entry: Entry, result: RunResult) -> None:
    """Judges a run; fails the item, in words rather than a traceback, unless it passed."""
    if UNJUDGED in item.stash:
        del item.stash[UNJUDGED]
    mask = item.config.stash[BENCHMARKS].mask
    outcome = masked_outcome(attempts_of(item, entry).judged(result), mask)
    run = note_run(item, entry, outcome.result, outcome.verdict, outcome.checks)
    add_properties(item, outcome.verdict, outcome.result, outcome.checks)
    if outcome.verdict is Verdict.SKIPPED:
        # Where the entry stands; a place in here would tell nobody anything.
        raise pytest.skip.Exception(outcome.result.error, _use_item_location=True)
    if outcome.verdict is not Verdict.PASSED:
        pytest.fail(_why(entry, outcome, run["directory"]), pytrace=False)


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


def _why(entry: Entry, outcome: Outcome, directory: str) -> str:
    result, checks = outcome.result, outcome.checks
    if outcome.verdict is Verdict.FAILED:
        headline = f"{entry.id}: failed: {_missed(checks)}"
        return "\n\n".join([headline, failure_table(checks), *outcome.texts, f"Results: {directory}"])
    lines = [f"{entry.id}: {outcome.verdict}: {result.error}"]
    if result.log_tail:
        lines += ["", f"The last lines of {result.log_path}:", *(f"  {line}" for line in result.log_tail)]
    elif result.log_path:
        lines += ["", f"It printed nothing; its log is {result.log_path}"]
    return "\n".join(lines)
