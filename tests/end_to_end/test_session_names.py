"""Sessions that nobody named: however many begin at once, each has a folder of its own."""

from __future__ import annotations

import sqlite3
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from curator_bench.runner.joining import claim_name

if TYPE_CHECKING:
    from end_to_end.conftest import Project

pytestmark = pytest.mark.slow

MINUTE = "2026-11-18_1432"
AT_ONCE = 5


@pytest.fixture
def nameless(project: Project) -> Project:
    """All that it starts begin in the same minute."""
    own = project.command

    def command(*options: str) -> list[str]:
        words = own(*options)
        at = words.index("--bench-session")
        return [*words[:at], *words[at + 2 :]]

    project.command = command  # type: ignore[method-assign]
    project.write(
        "conftest.py", f"from curator_bench.options import settings\nsettings.session_name_now = lambda: {MINUTE!r}\n"
    )
    return project


def names(project: Project) -> list[str]:
    return sorted(folder.name for folder in (project.folder / "results").iterdir())


def numbered(count: int) -> list[str]:
    return sorted([MINUTE, *(f"{MINUTE}_{number}" for number in range(2, count + 1))])


def test_invocations_that_begin_at_once_have_a_session_each(nameless: Project) -> None:
    nameless.matrix(nameless.entry("one"), nameless.entry("two"))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(lambda _: nameless.run("--benchmark", "-q"), range(AT_ONCE)))
    assert [outcome.code for outcome in outcomes] == [0] * AT_ONCE, [outcome.output for outcome in outcomes]
    assert names(nameless) == numbered(AT_ONCE)
    with sqlite3.connect(nameless.folder / "benchmark.db") as database:
        found = database.execute(
            "select s.name, count(*) from test_run r join bench_session s on s.id = r.session"
            " where r.verdict = 'passed' group by s.name order by s.name"
        ).fetchall()
    assert found == [(name, 2) for name in numbered(AT_ONCE)]


def test_two_that_share_only_the_disk_for_large_things_have_a_folder_each_there(
    nameless: Project, tmp_path: Path
) -> None:
    big = tmp_path / "big"
    nameless.matrix(nameless.entry("one"), artifacts_dir=str(big))
    assert nameless.run("--bench-results", "here").code == 0
    assert nameless.run("--bench-results", "there").code == 0
    assert [folder.name for folder in (nameless.folder / "here").iterdir()] == [MINUTE]
    assert [folder.name for folder in (nameless.folder / "there").iterdir()] == [f"{MINUTE}_2"]
    assert sorted(folder.name for folder in big.iterdir()) == numbered(2)


@pytest.mark.parametrize("options", [["--collect-only"], ["-k", "nothing_has_this_name"]])
def test_where_nothing_ran_no_folder_is_left(nameless: Project, options: list[str]) -> None:
    nameless.matrix(nameless.entry("one"))
    nameless.run(*options)
    assert not (nameless.folder / "results").exists()


def test_workers_of_xdist_share_the_session_of_their_controller(nameless: Project) -> None:
    nameless.matrix(*(nameless.entry(f"e{number}") for number in range(4)))
    assert nameless.run("-n2").code == 0
    assert names(nameless) == [MINUTE]


def test_resuming_without_a_name_goes_on_where_there_is_a_session_and_begins_one_where_there_is_none(
    nameless: Project,
) -> None:
    nameless.matrix(nameless.entry("one"))
    for said in ("no entry of", "1 of 1 entries are done in"):
        outcome = nameless.run("--bench-resume")
        assert said in outcome.output
    assert names(nameless) == [MINUTE]


def test_a_folder_of_results_that_cannot_be_made_is_a_usage_error(nameless: Project) -> None:
    nameless.matrix(nameless.entry("one"))
    nameless.write("results", "a file")
    outcome = nameless.run()
    assert outcome.code == 4
    assert f"ERROR: results cannot be written to {nameless.folder}/results: " in outcome.output


def test_python_benchmarks_that_are_recorded_have_a_session_each_too(nameless: Project) -> None:
    nameless.write("test_time.py", "def test_time(benchmark_time):\n    pass\n")
    own = nameless.command
    nameless.command = lambda *options: [  # type: ignore[method-assign]
        "test_time.py" if word == "matrix.yaml" else word for word in own(*options)
    ]
    processes: list[subprocess.Popen[str]] = [nameless.start("--benchmark") for _ in range(2)]
    assert [nameless.outcome(process).code for process in processes] == [0, 0]
    with sqlite3.connect(nameless.folder / "benchmark.db") as database:
        found = database.execute("select name from bench_session order by name").fetchall()
    assert found == [(name,) for name in numbered(2)]


def test_names_are_claimed_once_however_many_ask(tmp_path: Path) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda _: claim_name("s", tmp_path / "a" / "b", [tmp_path / "c"]), range(50)))
    expected = sorted(["s", *(f"s_{number}" for number in range(2, 51))])
    assert sorted(found) == expected
    assert sorted(folder.name for folder in (tmp_path / "a" / "b").iterdir()) == expected


def test_one_folder_by_two_names_is_claimed_once(tmp_path: Path) -> None:
    tmp_path.joinpath("link").symlink_to(tmp_path)
    assert [claim_name("s", tmp_path, [tmp_path / "link"]) for _ in range(2)] == ["s", "s_2"]
