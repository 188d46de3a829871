"""What is said of a git checkout, with real repositories."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from scratch_repository import ScratchRepository, make_repository

from curator_bench.measure.processes import busyness
from curator_bench.provenance.git import GitState, describe

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run git with nobody's configuration."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "no-configuration"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Somebody")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "somebody@localhost")

    def run(directory: Path, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=directory, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    return run


@pytest.fixture
def checkout(run: Run, tmp_path: Path) -> Path:
    """A repository with one commit on the branch `trunk`."""
    folder = tmp_path / "a checkout"
    folder.mkdir()
    run(folder, "init", "--initial-branch", "trunk")
    (folder / "file.txt").write_text("one\n")
    run(folder, "add", ".")
    run(folder, "commit", "--message", "first")
    return folder


def head(run: Run, folder: Path) -> str:
    return run(folder, "rev-parse", "HEAD")


def test_a_checkout_is_described_from_anywhere_inside(run: Run, checkout: Path) -> None:
    expected = GitState(str(checkout), head(run, checkout), "trunk", dirty=False)
    deeper = checkout / "deeper"
    deeper.mkdir()
    assert describe(checkout) == describe(deeper) == describe(checkout / "file.txt") == expected


def test_a_changed_file_makes_a_checkout_dirty_and_a_new_one_does_not(checkout: Path) -> None:
    (checkout / "results.json").write_text("{}")
    state = describe(checkout)
    assert state is not None
    assert state.dirty is False
    (checkout / "file.txt").write_text("two\n")
    state = describe(checkout)
    assert state is not None
    assert state.dirty is True


def test_a_detached_head_has_a_commit_and_no_branch(run: Run, checkout: Path) -> None:
    run(checkout, "checkout", "--detach")
    assert describe(checkout) == GitState(str(checkout), head(run, checkout), None, dirty=False)


def test_a_worktree_is_described_as_itself(run: Run, checkout: Path, tmp_path: Path) -> None:
    other = tmp_path / "worktree"
    run(checkout, "worktree", "add", "-b", "other", str(other))
    assert describe(other) == GitState(str(other), head(run, checkout), "other", dirty=False)


def test_an_empty_repository_has_a_branch_and_no_commit(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    run(folder, "init", "--initial-branch", "trunk")
    assert describe(folder) == GitState(str(folder), None, "trunk", dirty=False)


@pytest.mark.parametrize("name", ["plain", "missing", "bare"])
def test_what_is_no_checkout_is_none(run: Run, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    if name != "missing":
        folder.mkdir()
    if name == "bare":
        run(folder, "init", "--bare")
    assert describe(folder) is None


def test_without_git_it_is_none(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(checkout))
    assert describe(checkout) is None


def test_a_checkout_of_another_user_has_its_commit(
    run: Run, checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commit = head(run, checkout)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    refused = subprocess.run(["git", "status"], cwd=checkout, capture_output=True, text=True)
    assert "dubious ownership" in refused.stderr
    assert describe(checkout) == GitState(str(checkout), commit, "trunk", dirty=None)


def test_the_repository_of_a_running_hook_is_not_taken_for_ours(
    run: Run, checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hooked = tmp_path / "hooked"
    hooked.mkdir()
    run(hooked, "init", "--initial-branch", "hooked")
    expected = describe(checkout)
    monkeypatch.setenv("GIT_DIR", str(hooked / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(hooked / ".git" / "index"))
    assert describe(checkout) == expected


def test_a_look_leaves_the_index_untouched(checkout: Path) -> None:
    os.utime(checkout / "file.txt", (1, 1))  # git would refresh its index
    before = (checkout / ".git" / "index").stat().st_mtime_ns
    state = describe(checkout)
    assert state is not None
    assert state.dirty is False
    assert (checkout / ".git" / "index").stat().st_mtime_ns == before


def test_a_git_that_hangs_is_given_up(checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    began = time.monotonic()
    assert describe(checkout, patience_s=0.2) is None
    assert time.monotonic() - began < 20 * busyness()


def test_a_status_that_takes_too_long_costs_only_dirty(
    run: Run, checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commit, real = head(run, checkout), shutil.which("git")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "git").write_text(f'#!/bin/sh\ncase "$*" in *porcelain*) exec sleep 60;; *) exec {real} "$@";; esac\n')
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    assert describe(checkout, patience_s=2) == GitState(str(checkout), commit, "trunk", dirty=None)


def test_a_bisect_under_way_is_known_in_its_own_working_tree_only(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "project", seed=1, commits=3)
    repository.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"), "c3")
    linked = ScratchRepository(tmp_path / "linked")
    linked.git("bisect", "start", "c3", "c1")
    states = [describe(one.folder / "benchmarks") for one in (linked, repository)]
    assert [state is not None and state.is_bisecting for state in states] == [True, False]
    linked.git("bisect", "reset")
    after = describe(linked.folder)
    assert after is not None
    assert not after.is_bisecting
