"""A benchmark has one name in the database, and its ini file is read, however options are written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from end_to_end.conftest import Project


def paths(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as opened:
        return [path for (path,) in opened.execute("SELECT path FROM test_run ORDER BY id")]


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


def test_without_an_ini_file_the_values_of_options_do_not_rename_a_benchmark(project: Project, elsewhere: Path) -> None:
    (project.folder / "pytest.ini").unlink()
    project.matrix(project.entry("a"))
    database = elsewhere / "runs.db"
    words = ["--benchmark", "--benchmark-db", str(database), "--bench-results", str(elsewhere)]
    for more in ([], [], ["-n", "1"]):  # from the second on the database is there, too
        assert project.run(*words, *more).code == 0
    assert paths(database) == ["matrix.yaml"] * 3


def test_without_an_ini_file_the_database_stays_in_the_project(project: Project, elsewhere: Path) -> None:
    (project.folder / "pytest.ini").unlink()
    project.matrix(project.entry("a"))
    assert project.run("--benchmark", "--bench-results", str(elsewhere)).code == 0
    assert paths(project.folder / "benchmark.db") == ["matrix.yaml"]


def test_an_ini_file_that_pytest_overlooks_is_a_mistake_that_says_how_to_write_it(
    project: Project, elsewhere: Path
) -> None:
    project.matrix(project.entry("a"))
    command = [word for word in project.command() if word != "matrix.yaml"]
    project.command = lambda *options: [*command, *options]  # type: ignore[method-assign]  # pytest finds the matrix itself
    refused = project.run("--bench-results", str(elsewhere))
    assert refused.code == 4
    assert refused.has(f"Write it as one word: --bench-results={elsewhere}")
    assert refused.has(f"pytest has not read {project.folder / 'pytest.ini'}")
    assert project.run(f"--bench-results={elsewhere}").code == 0
