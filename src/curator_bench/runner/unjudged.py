"""A run that its test has not given to `judge_run`: the test itself judges it, by how it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from curator_bench.collection import BENCHMARKS, UNJUDGED
from curator_bench.runner.phases import error_of, shown, verdict_of
from curator_bench.runner.reporting import add_properties, note_run
from curator_bench.values import Verdict
from curator_bench.verdict.requirements import judge


def settle(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """A run that did not end well stays what it is, whatever its test makes of it."""
    entry, result = item.stash[UNJUDGED]
    verdict = judge(result, ())
    if verdict is Verdict.PASSED and not report.passed:
        error = shown(error_of(call, report), item.config.stash[BENCHMARKS].mask)
        verdict, result = verdict_of(call, report), replace(result, error=error)
    note_run(item, entry, result, verdict, ())
    add_properties(item, verdict, result)
