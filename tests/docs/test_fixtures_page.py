"""What docs/fixtures.md shows runs, with and without --benchmark, and no fixture is missing from it."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
import warm

from curator_bench import fixtures

PAGE = Path(__file__).parents[2] / "docs" / "fixtures.md"
FILE = re.compile(r"^```(?:python|yaml)\n# ([\w.]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TESTS_AND_ENTRIES = 8


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """All files of the page in one folder."""
    files = dict(FILE.findall(PAGE.read_text()))
    assert {"conftest.py", "matrix.yaml", "test_cluster.py"} <= set(files)
    for name, text in files.items():
        tmp_path.joinpath(name).write_text(text)
    tmp_path.joinpath("pytest.ini").write_text("[pytest]\n")
    return tmp_path


def run(folder: Path, *options: str) -> None:
    outcome = warm.run("pytest", "-q", "--strict-markers", *options, cwd=folder, within_s=300)
    assert f"{TESTS_AND_ENTRIES} passed" in outcome.stdout, outcome.stdout + outcome.stderr


@pytest.mark.slow
def test_what_it_shows_runs(folder: Path) -> None:
    run(folder, ".")
    assert not folder.joinpath("benchmark.db").exists()


def test_a_plain_run_has_the_datasets_of_a_matrix_whose_entries_it_leaves_out(folder: Path) -> None:
    outcome = warm.run("pytest", "-q", "-k", "test_reads", cwd=folder, within_s=300)
    assert "1 passed" in outcome.stdout, outcome.stdout + outcome.stderr


@pytest.mark.slow
def test_what_it_shows_is_recorded(folder: Path) -> None:
    run(folder, "--benchmark")
    with sqlite3.connect(folder / "benchmark.db") as connection:
        rows = dict(connection.execute("select name, verdict from test_run").fetchall())
        written = "select value from metric join test_run on test_run.id = run where test_run.name = 'test_writes'"
        found = connection.execute(written + " and metric.name not like 'machine.%'").fetchall()
        report = connection.execute("select performance_report_url from test_run where name = 'test_writes'").fetchall()
    assert set(rows.values()) == {"passed"}
    assert {"counting", "test_sorting", "test_squares", "test_put[1]", "test_put[20]", "test_reads"} < set(rows)
    assert found == [(1000.0,)]
    assert report == [("https://reports.example/disk",)]


def test_a_new_fixture_takes_ten_lines(folder: Path) -> None:
    lines = folder.joinpath("conftest.py").read_text().partition("@pytest.fixture")[2].strip().splitlines()
    assert len(lines) + 1 <= 10


def test_every_fixture_stands_on_the_page() -> None:
    page = PAGE.read_text()
    names = [name for name, value in vars(fixtures).items() if hasattr(value, "_get_wrapped_function")]
    assert len(names) > 15
    assert [name for name in names if f"| `{name}`" not in page and f", `{name}` |" not in page] == []
