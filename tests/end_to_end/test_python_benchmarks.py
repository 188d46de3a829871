"""The benchmarks of Ray that ship: plain tests, recorded with --benchmark, and grown by one variable."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest
import warm

ROOT = Path(__file__).parents[2]


def run(folder: Path, *arguments: str, scale: str = "0.02") -> subprocess.CompletedProcess[str]:
    where = [f"--bench-results={folder / 'results'}", f"--benchmark-db={folder / 'benchmark.db'}"]
    words = ["-p", "no:cacheprovider", "--no-header", *where, *arguments]
    return warm.run("pytest", *words, cwd=ROOT, env={**os.environ, "BENCH_SCALE": scale}, within_s=500)


def ask(folder: Path, query: str) -> list[Any]:
    with sqlite3.connect(folder / "benchmark.db") as connection:
        return connection.execute(query).fetchall()


def test_those_of_ray_core_run_as_plain_tests(tmp_path: Path) -> None:
    outcome = run(tmp_path, "benchmarks/ray_core")
    assert "10 passed" in outcome.stdout, outcome.stdout
    assert not tmp_path.joinpath("benchmark.db").exists()


def test_one_of_ray_data_is_recorded_and_answers_the_query_people_know(tmp_path: Path) -> None:
    outcome = run(tmp_path, "benchmarks", "-m", "ray_data", "-k", "write_wide_data", "--benchmark")
    assert "1 passed" in outcome.stdout, outcome.stdout
    ((version, memory),) = ask(
        tmp_path, "select ray_version, average_memory from test_run where name = 'test_write_wide_data';"
    )
    assert version.count(".") == 2
    assert memory > 0


def test_runs_of_one_scale_are_one_history_and_those_of_another_another(tmp_path: Path) -> None:
    for scale in ("0.02", "0.02", "0.03"):
        outcome = run(tmp_path, "benchmarks", "-m", "ray_core", "-k", "round_trips", "--benchmark", scale=scale)
        assert "2 passed" in outcome.stdout, outcome.stdout
    found = ask(tmp_path, "select definition_hash from test_run where name = 'test_task_round_trips' order by id")
    (first,), (second,), (other,) = found
    assert first == second != other
    scales = "select value from param join test_run on test_run.id = run where test_run.name = 'test_task_round_trips'"
    assert sorted(ask(tmp_path, scales)) == [("0.02",), ("0.02",), ("0.03",)]


@pytest.mark.parametrize("scale", ["ten", "0", "-1", "nan"])
def test_a_scale_that_is_none_is_a_usage_error(tmp_path: Path, scale: str) -> None:
    outcome = run(tmp_path, "benchmarks/ray_core", scale=scale)
    assert outcome.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"BENCH_SCALE: found '{scale}', expected a number above 0" in outcome.stderr
