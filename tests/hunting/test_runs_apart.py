"""What bisecting and A/B comparisons measure is no history: an open regression stays open, its gate goes on failing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import warm
from scratch_repository import ScratchRepository, environment, make_repository

COMMAND = Path(sys.executable).with_name("curator-bench")
GATE = "entries: [{name: work, requirements: [{metric: work_time_s, max_regression: 10%}]}]\n"
GATED = ("benchmarks", "--benchmark", "--bench-matrix", "noise/gate.yaml", "--bench-confirm", "0")


def run(program: str, repository: ScratchRepository, *words: str) -> subprocess.CompletedProcess[str]:
    return warm.run(program, *words, cwd=repository.folder, env=environment(), within_s=300)


def measure(repository: ScratchRepository, commit: str, *words: str) -> subprocess.CompletedProcess[str]:
    repository.git("checkout", "--quiet", commit)
    return run("pytest", repository, "benchmarks", "--benchmark", *words)


def answer(repository: ScratchRepository, *words: str) -> Any:
    done = run("curator-bench", repository, *words, "--json")
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> ScratchRepository:
    """Its third commit takes twice as long. The history knows the second and the fourth, and a regression is open."""
    made = make_repository(tmp_path_factory.mktemp("recorded") / "project", seed=1, slower_at=3, by=1.0, commits=4)
    made.folder.joinpath("noise", "gate.yaml").write_text(GATE)
    for commit, runs in (("c2", "20"), ("c4", "5")):
        assert measure(made, commit, "--bench-runs", runs).returncode == 0
    states = [one["state"] for one in answer(made, "regressions") if one["metric"] == "work_time_s"]
    assert states == ["open"], "what a run really takes is as busy as the machine"
    return made


@pytest.fixture
def repository(recorded: ScratchRepository, tmp_path: Path) -> ScratchRepository:
    shutil.copytree(recorded.folder, tmp_path / "project")
    return ScratchRepository(tmp_path / "project")


def bisect(repository: ScratchRepository) -> None:
    asked = ("--good", "c1", "--bad", "c4", "--entry", "work", "--metric", "work_time_s")
    done = run("curator-bench", repository, "bisect", *asked)
    assert f"The first bad commit is {repository.git('rev-parse', 'c3')}" in done.stdout, done.stderr


def bisect_step(repository: ScratchRepository) -> None:
    """Each commit is judged by its gate against the history before it."""
    step = (str(COMMAND), "bisect-step", "--", *GATED)
    repository.git("bisect", "start", "c4", "c1")
    said = repository.git("bisect", "run", *step)
    assert f"{repository.git('rev-parse', 'c3')} is the first bad commit" in said.replace("'", "")
    repository.git("bisect", "reset")


def bisect_by_hand(repository: ScratchRepository) -> None:
    repository.git("bisect", "start", "c4", "c1")
    for _ in range(8):
        done = run("pytest", repository, "benchmarks", "--benchmark")
        assert "No part of the history: a git bisect is under way" in done.stdout
    assert "No part of" in run("pytest", repository, "benchmarks", "--benchmark", "-n", "1").stdout
    repository.git("bisect", "reset")


def compare_environments(repository: ScratchRepository) -> None:
    repository.git("checkout", "--quiet", "c1")
    for name in "ab":
        repository.folder.joinpath("noise", f"{name}.yaml").write_text("{}\n")
    words = ("noise/a.yaml", "noise/b.yaml", "--budget", "1s", "--metric", "work_time_s", "--", "benchmarks")
    done = run("curator-bench", repository, "ab", *words)
    assert (done.returncode, "the time is used up after 1 round" in done.stderr) == (2, True), done.stderr
    repository.git("checkout", "--quiet", "c4")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hunt", "kind"),
    [(bisect, "bisect"), (bisect_step, "bisect-step"), (bisect_by_hand, "git-bisect"), (compare_environments, "ab")],
)
def test_a_hunt_leaves_the_history_and_its_gates_as_they_were(
    repository: ScratchRepository, hunt: Any, kind: str
) -> None:
    questions = (("regressions", "--all"), ("history", "work"), ("history",), ("sessions",))
    before = [answer(repository, *question) for question in questions]
    hunt(repository)
    assert [answer(repository, *question) for question in questions] == before
    gated = run("pytest", repository, *GATED)
    assert (gated.returncode, "work_time_s is worse than before" in gated.stdout) == (1, True)
    hunted = answer(repository, "sessions", "--hunts")["sessions"]
    assert {session["hunt"] for session in hunted} == {kind}
    (entry,) = answer(repository, "history", "work", "--hunts")["entries"]
    assert {one["hunt"] for one in entry["runs"]} == {kind}
    assert len(entry["runs"]) == sum(session["runs"] for session in hunted)
    shown = run("curator-bench", repository, "show", hunted[0]["name"]).stdout
    assert "; no history" in shown
    listed = run("curator-bench", repository, "sessions").stdout
    assert f"not listed: {len(hunted)} session" in listed


@pytest.mark.slow
def test_two_sessions_of_a_comparison_are_compared_by_name(repository: ScratchRepository) -> None:
    compare_environments(repository)
    of_a, of_b = (
        [one["name"] for one in answer(repository, "sessions", "--hunts")["sessions"] if f"-{side}-" in one["name"]]
        for side in "ab"
    )
    compared = {one["metric"]: one["runs"] for one in answer(repository, "compare", of_a[0], of_b[0])}
    assert compared["work_time_s"] == [1, 1]
    done = run("curator-bench", repository, "compare", repository.git("rev-parse", "c1"), "c4")
    assert "has no history, only sessions of bisects or A/B comparisons" in done.stderr


@pytest.mark.slow
def test_a_hunt_is_no_session_to_resume(repository: ScratchRepository) -> None:
    bisect_by_hand(repository)
    repository.git("checkout", "--quiet", "c4")
    done = run("pytest", repository, "benchmarks", "--benchmark", "--bench-resume")
    newest = answer(repository, "sessions")["sessions"][-1]["name"]
    assert f"resume: 1 of 1 entries are done in {repository.folder / 'results' / newest}" in done.stdout


@pytest.mark.slow
def test_what_a_hunt_measured_stays_apart_in_copies(repository: ScratchRepository) -> None:
    compare_environments(repository)
    before = [answer(repository, *question) for question in (("regressions",), ("sessions", "--hunts"))]
    for words in (
        ("export", "--format", "jsonl", "--out", "noise/all.jsonl"),
        ("import", "noise/all.jsonl", "--db", "noise/copy.db"),
    ):
        assert run("curator-bench", repository, *words).returncode == 0
    merged = run("curator-bench", repository, "merge", "benchmark.db", "noise/copy.db", "--into", "noise/both.db")
    assert merged.returncode == 0, merged.stderr
    for copy in ("noise/copy.db", "noise/both.db"):
        known = [
            answer(repository, *question, "--db", copy) for question in (("regressions",), ("sessions", "--hunts"))
        ]
        assert known == before


def test_an_unknown_kind_of_hunt_is_refused(repository: ScratchRepository) -> None:
    done = warm.run("pytest", "benchmarks", cwd=repository.folder, env=environment(CURATOR_BENCH_HUNT="fox"))
    assert (done.returncode, "CURATOR_BENCH_HUNT: found 'fox', expected bisect, " in done.stderr) == (4, True)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--entry", "wrk", "--metric", "work_time_s"), "--entry: there is no 'wrk'; did you mean 'work'?"),
        (
            ("--entry", "work", "--metric", "work_tme_s"),
            "work has not measured 'work_tme_s'; did you mean 'work_time_s'",
        ),
    ],
)
def test_a_mistyped_name_is_refused_before_anything_is_measured(
    repository: ScratchRepository, words: tuple[str, ...], problem: str
) -> None:
    done = run("curator-bench", repository, "bisect", "--good", "c1", "--bad", "c4", "--better", "less", *words)
    assert (done.returncode, problem in done.stderr, "measuring" in done.stderr) == (1, True, False)
