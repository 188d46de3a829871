"""`--profile` of `bisect` and `ab`: the two ends are profiled in turns until functions explain their difference."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import warm
from causes.profiled import profiles, record_hunt
from cli.nights import History, commit
from scratch_repository import environment, make_repository

from curator_bench.errors import BenchError
from curator_bench.hunting.bench import Bench
from curator_bench.hunting.end_profiles import MOST_ROUNDS, End, Ended, EndProfiles, ProfiledEnds, ProfileRequest
from curator_bench.values.profiles import Profile

CLEAN = {"main:run;words:clean": 1.5}


class Simulated:
    """A bench whose pytest is simulated: each has one more profile of the program in the database."""

    def __init__(self, history: History, place: int, slower: Mapping[str, float], scale: float) -> None:
        self._history, self._place = history, place
        self._profiles = (profiles(1, seed=100 * place + n, slower=slower, scale=scale)[0] for n in range(100))

    def profile(self, session: str, options: list[str]) -> str:
        assert options[:2] == ["--bench-profile", "py-spy"]
        found: Iterator[Profile] = self._profiles
        record_hunt(self._history, "words", session, commit(self._place), [next(found)])
        return ""


class Broken:
    def profile(self, session: str, options: list[str]) -> str:
        return "  py-spy may not look"


def ends(history: History, slower: Mapping[str, float], scale: float, **asked: Any) -> EndProfiles:
    benches = [Simulated(history, 1, {}, scale), Simulated(history, 2, slower, scale)]
    good, bad = (
        End(name, f"bisect-1-{name}", lambda bench=bench: cast(Bench, bench))  # type: ignore[misc]
        for name, bench in zip(("good", "bad"), benches, strict=True)
    )
    return EndProfiles("words", (good, bad), str(history.db), ProfileRequest(("py-spy",), **asked))


def named(found: ProfiledEnds) -> list[str]:
    return [one.function for one in found.differences[0].named]


def test_ends_are_profiled_in_turns_until_functions_explain_the_difference(tmp_path: Path) -> None:
    told = list[str]()
    both = ends(History(tmp_path), CLEAN, scale=0.02)
    found = both.profile(told.append)
    assert (found.ended, named(found)) == (Ended.EXPLAINED, ["words:clean"])
    assert 1 < found.rounds < MOST_ROUNDS
    order = ["good: round 1", "bad: round 1", "bad: round 2", "good: round 2"]
    assert told[:4] == [f"profiling {text}" for text in order]
    assert both.profile(told.append) == found, "the same command profiles nothing again"
    assert len(told) == 2 * found.rounds


def test_where_nothing_differs_it_ends_and_says_what_it_could_have_seen(tmp_path: Path) -> None:
    found = ends(History(tmp_path), {}, scale=0.01).profile(lambda _: None)
    assert (found.ended, found.rounds, named(found)) == (Ended.ROUNDS, MOST_ROUNDS, [])
    assert 0 < found.differences[0].visible < 10


def test_when_the_budget_is_spent_what_is_there_is_told_and_counts_later(tmp_path: Path) -> None:
    history = History(tmp_path)
    begun = ends(history, CLEAN, scale=0.02, deadline=time.monotonic())
    record_hunt(history, "words", "bisect-1-good-profile", commit(1), profiles(1, seed=1, scale=0.02))
    record_hunt(history, "words", "bisect-1-bad-profile", commit(2), profiles(1, seed=2, scale=0.02))
    found = begun.profile(lambda _: pytest.fail("no time is left"))
    assert (found.ended, found.rounds, len(found.differences)) == (Ended.BUDGET, 1, 1)


def test_an_end_that_cannot_be_profiled_is_named_with_the_reason(tmp_path: Path) -> None:
    def uninstallable() -> Bench:
        raise BenchError("it cannot be installed")

    both = ends(History(tmp_path), {}, scale=0.01)
    for prepare, why in ((uninstallable, "it cannot be installed"), (lambda: cast(Bench, Broken()), "may not look")):
        broken = End("bad", "bisect-1-bad", prepare)
        found = EndProfiles("words", (both.ends[0], broken), both.database, both.request).profile(lambda _: None)
        assert (found.ended, why in found.problem) == (Ended.FAILED, True)


PACKAGE = '''"""Its clock tells {took} seconds, and it waits for {waits}."""
import os
import time


def wait():
    time.sleep({waits} * float(os.environ.get("SLOWER", "1")))


def work():
    wait()
    return {took} * float(os.environ.get("SLOWER", "1"))
'''


@pytest.mark.slow
def test_after_the_commit_the_function_is_named_and_why_says_it_again(tmp_path: Path) -> None:
    project = make_repository(tmp_path / "project", seed=1, slower_at=None, commits=1)
    for tag, took, waits in (("good", 0.05, 0.1), ("bad", 0.1, 0.7)):
        (project.folder / "package.py").write_text(PACKAGE.format(took=took, waits=waits))
        project.git("commit", "--all", "--quiet", "--message", tag)
        project.git("tag", tag)
    words = ("--good", "good", "--bad", "bad", "--entry", "work", "--metric", "work_time_s", "--profile", "py-spy")
    before = project.stands()
    done = warm.run("curator-bench", "bisect", *words, cwd=project.folder, env=environment())
    assert (done.returncode, project.stands()) == (0, before), done.stderr
    assert f"The first bad commit is {project.git('rev-parse', 'bad')}" in done.stdout
    assert "functions explain the difference" in done.stdout
    assert "regression: waiting in package:wait, called by package:work" in done.stdout
    again = done.stdout.rstrip().splitlines()[-1].split("`")[1]
    program, *asked = shlex.split(again)
    said = warm.run(program, *asked, cwd=project.folder, env=environment())
    assert "regression: waiting in package:wait, called by package:work" in said.stdout


@pytest.mark.slow
def test_a_python_benchmark_that_differs_is_profiled_on_both_sides(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "project", seed=1, slower_at=None, commits=1).folder
    (folder / "package.py").write_text(PACKAGE.format(took=0.05, waits=0.15))
    test = "from package import work\n\ndef test_work(record_metric):\n    record_metric('work_time_s', work())\n"
    (folder / "benchmarks" / "test_work.py").write_text(f"{test}\ndef test_other(record_metric):\n    pass\n")
    (folder / "pytest.ini").write_text((folder / "pytest.ini").read_text() + "pythonpath = .\n")
    (folder / "a.yaml").write_text("{}\n")
    (folder / "b.yaml").write_text("env: {SLOWER: 4}\n")
    words = ("a.yaml", "b.yaml", "--metric", "work_time_s", "--profile", "py-spy", "--json")
    done = warm.run(
        "curator-bench", "ab", *words, "--", "benchmarks/test_work.py", cwd=folder, env=environment(), within_s=300
    )
    assert done.returncode == 1, done.stderr
    (profiled,) = json.loads(done.stdout)["profiles"]
    assert (profiled["entry"], profiled["ended"]) == ("benchmarks/test_work.py::test_work", "explained")
    assert profiled["functions"][0]["named"][0]["function"] == "package:wait"
