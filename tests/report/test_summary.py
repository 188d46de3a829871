"""The table at the end of a session."""

from __future__ import annotations

from curator_bench.report.summary import summary_table
from curator_bench.values import Check, RunRecord, Verdict
from curator_bench.words import readable_seconds


def test_what_a_script_named_stays_in_its_line_of_the_table() -> None:
    metrics = {"a\n::error::pwn": 3, "big": 1e308, "huge": 10**30}
    _, row = summary_table([RunRecord(name="e", verdict=Verdict.PASSED, duration_s=1.0, metrics=metrics)])
    assert row == r"e      passed   1.00 s    a\n::error::pwn=3, big=1e+308, huge=1e+30"


def test_what_is_required_or_named_for_a_sink_stands_first_and_a_gate_says_its_word() -> None:
    metrics = {
        "docs_per_s": 1,
        "read_s": 2.0,
        "read_s_min": 1.0,
        "read_s_max": 3.0,
        "exit_code": 0,
        "pages": 7,
        "words": 8,
    }
    gate = Check("words", "max_regression", 0.1, 8, met=None, says="inconclusive")
    run = RunRecord(name="e", nodeid="m::e", verdict=Verdict.PASSED, metrics=metrics, requirements=(gate,))
    _, row, *_ = summary_table([run], {"m::e": ["pages"]})
    assert row.endswith("words=8 (inconclusive), pages=7, docs_per_s=1")


def test_the_time_is_that_of_what_was_measured() -> None:
    run = RunRecord(name="e", verdict=Verdict.PASSED, duration_s=60.0, metrics={"exec_time_s": 0.0023})
    assert summary_table([run])[1].split()[2:4] == ["2.3", "ms"]


def test_times_that_differ_by_as_much_as_matters_are_told_apart() -> None:
    for seconds in (2e-6, 2e-3, 0.05, 0.1, 0.42, 1.0, 4.2, 12.0, 60.0):
        assert readable_seconds(seconds) != readable_seconds(1.05 * seconds), seconds
    assert [readable_seconds(one) for one in (0.002, 0.0023, 0.42)] == ["2 ms", "2.3 ms", "0.42 s"]
