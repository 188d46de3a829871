"""The benchmarks of Ray that ship: plain tests, recorded with --benchmark, and grown by one variable."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest
import warm

ROOT = Path(__file__).parents[2]


def run(folder: Path, *arguments: str, scale: str = "0.02", cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    where = [f"--bench-results={folder / 'results'}", f"--benchmark-db={folder / 'benchmark.db'}"]
    words = ["-p", "no:cacheprovider", "--no-header", *where, *arguments]
    return warm.run("pytest", *words, cwd=cwd, env={**os.environ, "BENCH_SCALE": scale}, within_s=500)


def ask(folder: Path, query: str) -> list[Any]:
    with sqlite3.connect(folder / "benchmark.db") as connection:
        return connection.execute(query).fetchall()


@pytest.mark.slow
def test_those_of_ray_core_run_as_plain_tests(tmp_path: Path) -> None:
    outcome = run(tmp_path, "benchmarks/ray_core")
    assert "10 passed" in outcome.stdout, outcome.stdout
    assert not tmp_path.joinpath("benchmark.db").exists()


@pytest.mark.slow
def test_one_of_ray_data_is_recorded_and_answers_the_query_people_know(tmp_path: Path) -> None:
    outcome = run(tmp_path, "benchmarks", "-m", "ray_data", "-k", "write_wide_data", "--benchmark")
    assert "1 passed" in outcome.stdout, outcome.stdout
    ((version, memory),) = ask(
        tmp_path, "select ray_version, average_memory from test_run where name = 'test_write_wide_data';"
    )
    assert version.count(".") == 2
    assert memory > 0


def test_runs_of_one_scale_are_one_history_and_those_of_another_another(tmp_path: Path) -> None:
    """As the fixture `scale` of benchmarks/conftest.py tells them apart, whatever is measured."""
    shutil.copy(ROOT / "benchmarks" / "conftest.py", tmp_path)
    tmp_path.joinpath("test_it.py").write_text("def test_it(scale, benchmark_time):\n    with benchmark_time: pass\n")
    for scale in ("0.02", "0.02", "0.03"):
        outcome = run(tmp_path, "test_it.py", "--benchmark", scale=scale, cwd=tmp_path)
        assert "1 passed" in outcome.stdout, outcome.stdout
    found = ask(tmp_path, "select definition_hash from test_run order by id")
    (first,), (second,), (other,) = found
    assert first == second != other
    assert sorted(ask(tmp_path, "select value from param")) == [("0.02",), ("0.02",), ("0.03",)]


@pytest.mark.parametrize("scale", ["ten", "0", "-1", "nan"])
def test_a_scale_that_is_none_is_a_usage_error(tmp_path: Path, scale: str) -> None:
    outcome = run(tmp_path, "benchmarks/ray_core", scale=scale)
    assert outcome.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"BENCH_SCALE: found '{scale}', expected a number above 0" in outcome.stderr
