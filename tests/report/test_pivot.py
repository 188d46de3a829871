"""A session as a table: which runs share a cell, what a cell shows, what is said when it cannot be drawn."""

from __future__ import annotations

import csv
from dataclasses import replace
from typing import Any

import pytest

from curator_bench.errors import BenchError
from curator_bench.files.codec import from_document
from curator_bench.report.pivot import pivot
from curator_bench.values import Check, RunRecord, Verdict


def run(model: str, attention: str, speed: float | None, verdict: str = "passed", **more: Any) -> RunRecord:
    axes = {"model": model, "attention": attention, **more.pop("axes", {})}
    metrics = {} if speed is None else {"tokens_per_s": speed}
    name = f"reading[{'-'.join(axes.values())}]"
    known = {"name": name, "entry": "reading", "axes": axes, "verdict": verdict, "metrics": metrics}
    return from_document(RunRecord, {**known, **more})


def drawn(runs: list[RunRecord], **said: Any) -> list[list[str]]:
    table = pivot(runs, **{"metric": "tokens_per_s", "rows": ["model"], "columns": ["attention"], **said})
    return [table.heads(), *table.lines(lambda value: f"{value:g}")]


def test_each_run_stands_where_its_axes_meet() -> None:
    runs = [run("b", "dense", 1), run("a", "local", 2), run("a", "dense", 3)]
    assert drawn(runs) == [["model", "dense", "local"], ["a", "3", "2"], ["b", "1", ""]]


def test_numbers_in_names_are_in_their_own_order() -> None:
    runs = [run(model, "dense", 1) for model in ("16k", "2k", "1k", "1.5k")]
    assert [line[0] for line in drawn(runs)[1:]] == ["1k", "1.5k", "2k", "16k"]


@pytest.mark.parametrize(
    ("summary", "shown"), [("median", "2"), ("mean", "4"), ("min", "1"), ("max", "9"), ("sum", "12")]
)
def test_runs_that_share_a_cell_are_summarized(summary: str, shown: str) -> None:
    runs = [run("a", "dense", speed, axes={"context": str(speed)}) for speed in (1, 2, 9)]
    assert drawn(runs, summary=summary)[1] == ["a", shown]


def test_what_is_taken_together_is_said() -> None:
    table = pivot([run("a", x, 1) for x in ("x", "y")], metric="tokens_per_s", rows=["model"])
    assert table.notes() == [
        "tokens_per_s, median of up to 2 runs in a cell",
        "each cell combines all values of attention",
    ]


def test_a_run_without_a_number_shows_its_verdict() -> None:
    runs = [run("a", "dense", None, "timeout"), run("a", "local", 7, "crashed"), run("a", "top", 5)]
    assert drawn(runs)[1] == ["a", "timeout", "crashed", "5"]


def test_a_number_of_a_failed_run_is_marked() -> None:
    assert drawn([run("a", "dense", 5, "failed")])[1] == ["a", "5*"]


def test_entries_that_do_not_measure_it_are_left_out() -> None:
    axes = {"model": "z", "attention": "dense"}
    other = RunRecord(name="x", entry="x", axes=axes, verdict=Verdict.PASSED)
    assert [line[0] for line in drawn([run("a", "dense", 5), other])] == ["model", "a"]


def test_csv_has_the_numbers_in_full_and_reads_back() -> None:
    text = pivot([run('a,"b"', "dense", 1 / 3)], metric="tokens_per_s", rows=["model"], columns=["attention"]).as_csv()
    assert list(csv.reader(text.splitlines())) == [["model", "dense"], ['a,"b"', str(1 / 3)]]


def test_markdown_keeps_its_columns_whatever_names_hold() -> None:
    lines = pivot([run("a|b", "dense", 5)], metric="tokens_per_s", rows=["model"], columns=["attention"]).as_markdown()
    assert lines.splitlines() == ["| model | dense |", "| --- | ---: |", "| a\\|b | 5 |"]


def test_a_part_of_a_metrics_name_is_enough_when_it_is_of_one_only() -> None:
    runs = [run("a", "dense", 5, metrics={"tokens_per_s": 5, "prefill_s": 1, "machine.tokens": 7})]
    assert drawn(runs, metric="tokens")[1] == ["a", "5"], "what the machine did is found by its whole name only"
    assert drawn(runs, metric="machine.tokens")[1] == ["a", "7"]
    with pytest.raises(BenchError, match="2 metrics have '_s' in their names; there are: tokens_per_s, prefill_s"):
        drawn(runs, metric="_s")


def test_an_unknown_axis_or_metric_names_those_there_are() -> None:
    with pytest.raises(BenchError, match=r"no run has the axis modell; there are: model, attention, entry"):
        drawn([run("a", "dense", 5)], rows=["modell"])
    with pytest.raises(BenchError, match=r"no run has the metric 'spead'; there are: tokens_per_s"):
        drawn([run("a", "dense", 5)], metric="spead")


def test_rows_may_be_entries() -> None:
    assert drawn([run("a", "dense", 5)], rows=["entry", "model"])[1] == ["reading", "a", "5"]


def test_an_entry_whose_runs_all_crashed_has_its_row() -> None:
    """Also where the axis is one that every run has, and where a study has an entry for each model."""
    crashed = replace(run("b", "dense", None, "crashed"), name="other[b-dense]", entry="other")
    assert drawn([run("a", "dense", 5), crashed], rows=["entry"], columns=[])[1:] == [
        ["other", "crashed"],
        ["reading", "5"],
    ]
    table = pivot([run("a", "dense", 5), crashed], metric="tokens_per_s", rows=["model"])
    assert table.lines(str) == [["a", "5.0"], ["b", "crashed"]]
    assert "no run of other gave a number; their verdicts are shown in otherwise empty cells" in table.notes()
    required = Check("tokens_per_s", "min_value", 1, None, met=False, missing=True)
    failed = replace(run("b", "dense", None, "failed"), entry="another", requirements=(required,))
    assert drawn([run("a", "dense", 5), failed], columns=[])[1:] == [["a", "5"], ["b", "failed"]]


def test_an_entry_of_which_nothing_is_known_takes_nothing_from_the_numbers_of_others() -> None:
    crashed = replace(run("a", "dense", None, "crashed"), name="needle[a-dense]", entry="needle")
    table = pivot([run("a", "dense", 5), crashed], metric="tokens_per_s", rows=["model"])
    assert (table.lines(str), table.notes()[0]) == ([["a", "5.0"]], "tokens_per_s")
    assert table.notes()[1].startswith("no run of needle gave a number")


def test_what_has_no_number_does_not_count_as_one_and_is_told_apart() -> None:
    def of(context: str, model: str, speed: Any, verdict: str = "passed") -> RunRecord:
        return run(model, "dense", speed, verdict, axes={"context": context})

    runs = [of("1k", "a", 90), of("2k", "a", "NaN"), of("1k", "b", None, "crashed"), of("2k", "b", None, "timeout")]
    runs += [of("1k", "c", "NaN"), of("1k", "d", None)]
    table = pivot(runs, metric="tokens_per_s", rows=["model"], columns=["context"], summary="mean")
    assert table.lines(str) == [
        ["a", "90.0", "NaN"],
        ["b", "crashed", "timeout"],
        ["c", "NaN", ""],
        ["d", "passed", ""],
    ]
    assert table.as_csv().splitlines() == ["model,1k,2k", "a,90.0,NaN", "b,crashed,timeout", "c,NaN,", "d,passed,"]
    table = pivot(runs, metric="tokens_per_s", rows=["attention"], summary="mean")
    assert table.lines(str) == [["dense", "90.0*"]]
    assert table.notes() == [
        "tokens_per_s",
        "each cell combines all values of model, context",
        "* not all of its runs passed with a number; those without one do not count",
    ]


def test_axes_that_no_run_has_together_are_a_mistake_that_says_so() -> None:
    other = RunRecord(name="x[2]", entry="x", axes={"cpus": "2"}, verdict=Verdict.PASSED, metrics={"other": 1})
    said = (
        "no run that measures tokens_per_s has both model and cpus; the axes of those that do: model, attention, entry"
    )
    with pytest.raises(BenchError, match=said):
        drawn([run("a", "dense", 5), other], columns=["cpus"])


def test_names_with_line_ends_stay_in_their_row() -> None:
    table = pivot([run("a\nb", "x\ny", 5)], metric="tokens_per_s", rows=["model"], columns=["attention"])
    assert table.as_markdown().splitlines() == ["| model | x\\\\ny |", "| --- | ---: |", "| a\\\\nb | 5 |"]
    assert [table.heads(), *table.lines(str)] == [["model", "x\\ny"], ["a\\nb", "5.0"]]
