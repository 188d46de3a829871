"""Tests with the fixture `benchmark` of pytest-benchmark or pytest-codspeed are recorded with what these measure."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import warm

from curator_bench.metric_names import in_order

TESTS = """
import pytest


@pytest.mark.parametrize("size", [10, 2000])
def test_sorting(benchmark, size):
    benchmark.extra_info.update(comparisons=size * 3, how="quick")
    benchmark.pedantic(sorted, (list(range(size, 0, -1)),), rounds=1000)


class TestMore:
    @pytest.mark.benchmark(group="sums")
    @pytest.mark.parametrize("text", ["a/b c", "[odd]"])
    def test_sum(self, benchmark, text):
        benchmark.pedantic(len, (text,), rounds=3, iterations=10)


@pytest.fixture
def measured(benchmark):
    return lambda *what: benchmark.pedantic(*what, rounds=2)


def test_by_a_fixture_of_its_own(measured):
    measured(sum, ([1, 2],))


@pytest.mark.benchmark(max_time=0.01)
def test_calibrated(benchmark):
    benchmark(sum, [1, 2])


def test_asserts(benchmark):
    assert benchmark.pedantic(sum, ([1, 2],), rounds=2) == 4


def test_raises(benchmark):
    benchmark.pedantic(int, ("x",), rounds=2)


def test_skips(benchmark):
    pytest.skip("not here")


def test_codspeed(codspeed_benchmark):
    codspeed_benchmark.extra_info["rows"] = 7
    codspeed_benchmark.pedantic(sum, ([1, 2],), rounds=20)


def test_unit():
    pass
"""
MARKED = """
import pytest


@pytest.mark.benchmark(max_rounds=3)
def test_marked():
    sum(range(10))


def test_unit():
    pass
"""
RESULTS = {
    "test_sorting[10]": "passed",
    "test_sorting[2000]": "passed",
    "TestMore::test_sum[a/b c]": "passed",
    "TestMore::test_sum[[odd]]": "passed",
    "test_by_a_fixture_of_its_own": "passed",
    "test_calibrated": "passed",
    "test_asserts": "failed",
    "test_raises": "crashed",
    "test_skips": "skipped",
    "test_codspeed": "passed",
}


@dataclass(frozen=True)
class Measured:
    """A project and what its pytest printed."""

    folder: Path
    output: str

    def rows(self, query: str) -> list[Any]:
        with sqlite3.connect(self.folder / "benchmark.db") as database:
            return database.execute(query).fetchall()

    def metrics(self, name: str) -> dict[str, float]:
        return dict(
            self.rows(f"select m.name, value from metric m join test_run r on r.id = run where r.name = {name!r}")
        )


def measure(folder: Path, tests: str, *options: str) -> Measured:
    folder.joinpath("pytest.ini").write_text("[pytest]\n")
    folder.joinpath("test_timed.py").write_text(tests)
    # pytest-benchmark measures nothing in a worker of xdist, which has such a variable. PYTEST_ADDOPTS switches it off.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    words = ("-p", "no:cacheprovider", "--benchmark", "--no-header", *options, "test_timed.py")
    done: subprocess.CompletedProcess[str] = warm.run("pytest", *words, cwd=folder, env=env)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return Measured(folder, done.stdout)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measure(
        tmp_path_factory.mktemp("timed"), TESTS, "--benchmark-json", "theirs.json", "--benchmark-columns=min"
    )


def test_each_test_that_measures_is_a_run_with_its_verdict(measured: Measured) -> None:
    assert dict(measured.rows("select name, verdict from test_run")) == RESULTS


def test_metrics_are_those_of_an_imported_file(measured: Measured) -> None:
    theirs = json.loads((measured.folder / "theirs.json").read_text())["benchmarks"]
    assert len(theirs) == 7
    for one in theirs:
        ours = measured.metrics(one["fullname"].partition("::")[2])
        for name in ("median", "min", "max", "mean", "stddev", "iqr", "q1", "q3", "total"):
            assert ours[f"{name}_s"] == one["stats"][name]
        assert (ours["ops_per_sec"], ours["rounds"]) == (one["stats"]["ops"], one["stats"]["rounds"])
    assert measured.metrics("test_sorting[10]")["comparisons"] == 30


def test_parameters_group_and_texts_of_extra_info_are_params(measured: Measured) -> None:
    query = "select r.name, p.name, p.value from param p join test_run r on r.id = run order by 1, 2"
    assert measured.rows(query) == [
        ("TestMore::test_sum[[odd]]", "group", "sums"),
        ("TestMore::test_sum[[odd]]", "text", "[odd]"),
        ("TestMore::test_sum[a/b c]", "group", "sums"),
        ("TestMore::test_sum[a/b c]", "text", "a/b c"),
        ("test_sorting[10]", "how", "quick"),
        ("test_sorting[10]", "size", "10"),
        ("test_sorting[2000]", "how", "quick"),
        ("test_sorting[2000]", "size", "2000"),
    ]


def test_rounds_are_samples_of_the_median_and_at_most_100(measured: Measured) -> None:
    query = "select value from sample s join test_run r on r.id = run where r.name = {!r} and metric = 'median_s'"
    theirs = json.loads((measured.folder / "theirs.json").read_text())["benchmarks"]
    rounds = {one["fullname"].partition("::")[2]: one["stats"]["data"] for one in theirs}
    few, many = "TestMore::test_sum[a/b c]", "test_sorting[10]"
    assert [value for (value,) in measured.rows(query.format(few))] == rounds[few]
    assert [value for (value,) in measured.rows(query.format(many))] == rounds[many][::10]


def test_rounds_of_a_function_that_raised_do_not_count(measured: Measured) -> None:
    assert not measured.metrics("test_raises").keys() & {"median_s", "rounds"}
    assert measured.metrics("test_asserts")["rounds"] == 2


def test_codspeed_measures_without_its_own_option(measured: Measured) -> None:
    found = measured.metrics("test_codspeed")
    assert (found["rounds"], found["iterations"], found["rows"]) == (20, 1, 7)
    assert 0 < found["min_s"] <= found["median_s"] <= found["max_s"] < 1
    assert "benchmarked" not in measured.output


def test_tables_show_the_median_and_extra_info(measured: Measured) -> None:
    shown = next(line for line in measured.output.splitlines() if line.startswith("test_sorting[10] "))
    assert [part.partition("=")[0] for part in shown.split()[-2:]] == ["median_s", "comparisons"]


def test_codspeed_measures_marked_tests_where_it_is_alone(tmp_path: Path) -> None:
    measured = measure(tmp_path, MARKED, "-p", "no:benchmark", "--codspeed-warmup-time", "0.01")
    assert measured.rows("select name, verdict from test_run") == [("test_marked", "passed")]
    assert measured.metrics("test_marked")["rounds"] == 3
    assert "2 passed" in measured.output


def test_what_pytest_benchmark_does_not_measure_is_not_recorded_and_said(tmp_path: Path) -> None:
    measured = measure(tmp_path, TESTS, "--benchmark-disable", "-k", "sorting or unit or codspeed")
    assert measured.rows("select name from test_run") == [("test_codspeed",)]
    assert "2 benchmarks were not measured, because pytest-benchmark is switched off" in measured.output


def test_only_the_median_of_rounds_is_judged() -> None:
    assert in_order(["median_s", "min_s", "ops_per_sec", "rounds", "total_s", "rows"], ()) == ["median_s", "rows"]
    assert in_order(["min_s", "rounds", "rows"], ()) == ["min_s", "rounds", "rows"]
