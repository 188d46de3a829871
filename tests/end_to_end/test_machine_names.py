"""`bench_machine` says that machines are one kind."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from end_to_end.conftest import Project


def machines(project: Project) -> list[str]:
    with sqlite3.connect(project.folder / "benchmark.db") as database:
        return [machine for (machine,) in database.execute("select machine_id from test_run order by start")]


def test_the_ini_file_or_a_variable_names_the_kind_of_machine(project: Project) -> None:
    project.matrix(project.entry("one"))
    assert project.run("--benchmark", "--bench-session", "a").code == 0
    project.write("pytest.ini", "[pytest]\nbench_machine = ci-runner\n")
    assert project.run("--benchmark", "--bench-session", "b").code == 0
    assert project.run("--benchmark", "--bench-session", "c", CURATOR_BENCH_MACHINE="big").code == 0
    computed, *named = machines(project)
    assert computed not in named
    assert named == ["ci-runner", "big"]


@pytest.mark.parametrize("name", ["two words", "../x", "a" * 41, "0123456789ab"])
def test_what_is_no_name_is_a_usage_error(project: Project, name: str) -> None:
    project.matrix(project.entry("one"))
    outcome = project.run(CURATOR_BENCH_MACHINE=name)
    assert outcome.code == 4
    assert f"CURATOR_BENCH_MACHINE: found {name!r}, expected a name" in outcome.output
