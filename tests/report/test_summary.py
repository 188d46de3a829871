"""The table at the end of a session."""

from __future__ import annotations

from curator_bench.report.summary import summary_table
from curator_bench.values import RunRecord, Verdict


def test_what_a_script_named_stays_in_its_line_of_the_table() -> None:
    metrics = {"a\n::error::pwn": 3, "big": 1e308, "huge": 10**30}
    _, row = summary_table([RunRecord(name="e", verdict=Verdict.PASSED, duration_s=1.0, metrics=metrics)])
    assert row == r"e      passed   1.00 s  a\n::error::pwn=3, big=1e+308, huge=1e+30"
