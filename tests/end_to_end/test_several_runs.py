"""`--bench-runs`: each time is a run of its own, with a row and a judgement; what broke is not run again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from end_to_end.conftest import Project


def verdicts(project: Project) -> list[tuple[str, str, int, int | None]]:
    with closing(sqlite3.connect(project.folder / "benchmark.db")) as database:
        return database.execute(
            "select test_run.name, verdict, attempt, met from test_run left join requirement on run = id order by start"
        ).fetchall()


def test_each_time_is_a_run_that_is_judged(project: Project) -> None:
    limit = [{"metric": "time_s", "max_value": 0.5}]
    project.matrix(project.entry("slow", """--metrics '{"time_s": 1}'""", requirements=limit))
    assert project.run("--benchmark", "--bench-runs", "3").code == 1
    assert verdicts(project) == [("slow", "failed", number, 0) for number in (1, 2, 3)]


def test_what_broke_is_not_run_again(project: Project) -> None:
    project.matrix(project.entry("breaks", "--exit 3"))
    assert project.run("--benchmark", "--bench-runs", "3").code == 1
    assert [row[:3] for row in verdicts(project)] == [("breaks", "crashed", 1)]


@pytest.mark.parametrize("words", [("--bench-runs", "0"), ("--bench-runs", "2", "--bench-fleet", "local")])
def test_what_cannot_be_meant_is_a_usage_error(project: Project, words: tuple[str, ...]) -> None:
    project.matrix(project.entry("work"))
    outcome = project.run(*words)
    assert outcome.code == 4
    assert "--bench-runs" in outcome.output
