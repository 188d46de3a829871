"""History is in the order of commits: what is measured later for an older commit is put, and judged, at its place."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import warm
from scratch_repository import ScratchRepository, environment, make_repository

GATE = "entries: [{name: work, requirements: [{metric: work_time_s, max_regression: 10%}]}]\n"


def run(program: str, repository: ScratchRepository, *words: str) -> subprocess.CompletedProcess[str]:
    return warm.run(program, *words, cwd=repository.folder, env=environment(), within_s=120)


def measure(repository: ScratchRepository, *commits: int, runs: int = 2) -> list[int]:
    """As asv does: each commit is checked out detached. Returns the exit codes; a gate judges each run."""
    repository.folder.joinpath("noise", "gate.yaml").write_text(GATE)
    codes = []
    for number in commits:
        repository.git("checkout", "--quiet", "--detach", f"c{number}")
        words = ("--bench-matrix", "noise/gate.yaml", "--bench-confirm", "0", "--bench-runs", str(runs))
        codes.append(run("pytest", repository, "benchmarks", "--benchmark", *words).returncode)
    return codes


def answer(repository: ScratchRepository, *words: str) -> Any:
    done = run("curator-bench", repository, *words, "--json")
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def verdicts(repository: ScratchRepository, *words: str) -> list[tuple[str, ...]]:
    """Return those of the metric whose noise is drawn: what a run really takes is as busy as the machine."""
    found = [one for one in answer(repository, "regressions", *words) if one["metric"] == "work_time_s"]
    return [(one["metric"], one["kind"], one["state"], one["since"]["commit"]) for one in found]


def subjects_in_order(repository: ScratchRepository) -> list[int]:
    (entry,) = answer(repository, "history", "work")["entries"]
    numbers = {repository.git("rev-parse", f"c{number}"): number for number in range(1, 11)}
    return [numbers[one["commit"]] for one in entry["runs"]]


@pytest.fixture
def repository(tmp_path: Path) -> ScratchRepository:
    """Its seventh commit takes half as long again."""
    return make_repository(tmp_path / "project", seed=1, slower_at=7, by=0.5, commits=10)


@pytest.mark.slow
def test_going_back_to_commits_gives_the_verdicts_of_measuring_in_order(
    repository: ScratchRepository, tmp_path: Path
) -> None:
    in_order = make_repository(tmp_path / "in-order", seed=1, slower_at=7, by=0.5, commits=10)
    assert measure(in_order, *range(1, 11)) == [0] * 6 + [1] * 4
    assert measure(repository, 1, 2, 3, 5, 6, 8, 10) == [0, 0, 0, 0, 0, 1, 1]
    assert measure(repository, 7, 4, 9) == [1, 0, 1], "each is judged against what was before it"
    numbers = [number for number in range(1, 11) for _ in range(2)]
    assert [subjects_in_order(one) for one in (in_order, repository)] == [numbers, numbers]
    culprits = [one.git("rev-parse", "c7") for one in (in_order, repository)]
    expected = [[("work_time_s", "regression", "open", culprit)] for culprit in culprits]
    assert [verdicts(one) for one in (in_order, repository)] == expected
    assert verdicts(repository, "--branch", "main") == expected[1], "detached checkouts are of the branch"
    judged = [
        answer(one, "history", "work")["entries"][0]["judgements"]["work_time_s"] for one in (in_order, repository)
    ]
    assert judged[0]["verdict"] == judged[1]["verdict"]
    assert run("curator-bench", repository, "accept", "work", "work_time_s", "--why", "known").returncode == 0
    assert measure(repository, 7, 10) == [0, 0], "the accepted level begins with it"
    assert verdicts(repository) == []


@pytest.mark.slow
def test_an_old_tag_that_is_measured_again_is_not_the_newest_level(repository: ScratchRepository) -> None:
    measure(repository, 8, 10)
    measure(repository, 1, runs=20)
    assert measure(repository, 10) == [1]
    assert verdicts(repository) == [("work_time_s", "regression", "open", repository.git("rev-parse", "c8"))]


@pytest.mark.slow
def test_after_a_rebase_and_without_a_known_depth_time_decides(repository: ScratchRepository, tmp_path: Path) -> None:
    measure(repository, 8, 9, runs=1)
    later = {"GIT_COMMITTER_DATE": "2090-01-01T00:00:00+0000"}
    repository.git("checkout", "--quiet", "--detach", "c2")

    amend = ("git", "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "--quiet", "--amend", "-m", "Anew")
    subprocess.run(amend, cwd=repository.folder, env={**os.environ, **later}, check=True)
    repository.git("tag", "--force", "c10")
    repository.git("branch", "--force", "main")
    measure(repository, 10, runs=1)
    assert subjects_in_order(repository) == [8, 9, 10]
    shallow = ScratchRepository(tmp_path / "shallow")
    subprocess.run(["git", "clone", "--quiet", "--depth=1", f"file://{repository.folder}", shallow.folder], check=True)
    (shallow.folder / "noise").mkdir()
    for name in ("seed", "drawn"):
        (shallow.folder / "noise" / name).write_text("0")
    assert run("pytest", shallow, "benchmarks", "--benchmark").returncode == 0
    with closing(sqlite3.connect(shallow.folder / "benchmark.db")) as database:
        found = database.execute('SELECT "commit" IS NULL, commit_depth, committed_at FROM bench_session').fetchall()
    assert found == [(0, None, None)]
    assert "ordered by time" in run("curator-bench", shallow, "history", "work").stdout


def test_a_session_that_was_resumed_at_another_commit_is_what_history_names(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "project", seed=1, slower_at=2, by=0.5, commits=3)
    words = ("benchmarks", "--benchmark", "--bench-session", "one", "--bench-resume")
    repository.git("checkout", "--quiet", "--detach", "c1")
    assert run("pytest", repository, "benchmarks", "--benchmark", "--bench-session", "before").returncode == 0
    assert run("pytest", repository, *words).returncode == 0
    (folder,) = repository.folder.rglob("one/work")
    shutil.rmtree(folder)
    repository.git("checkout", "--quiet", "--detach", "c2")
    assert run("pytest", repository, *words).returncode == 0
    last = run("curator-bench", repository, "history", "work").stdout.splitlines()[-1]
    assert last == (
        "ordered by commit, except 2 runs by time: "
        "a session that was resumed at another commit has no commit of its own"
    )
