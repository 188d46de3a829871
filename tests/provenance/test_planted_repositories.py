"""A git repository that another user planted around our folder runs none of its programs as us."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from other_user import needs_a_second_user, run, shared_folder

from curator_bench.errors import BenchError
from curator_bench.hunting.repository import Repository
from curator_bench.provenance import git

pytestmark = needs_a_second_user

# Makes a repository somewhere, with a program of theirs in its configuration, and moves it (or its parts) into place.
PLANTS_A_REPOSITORY = """
shared, way, worktree, content = sys.argv[1:]
top = tempfile.mkdtemp(dir=shared)
os.chmod(top, 0o755)
def in_git(*words):
    env = {"PATH": os.environ["PATH"], "HOME": top}
    subprocess.run(["git", "-C", top, *words], check=True, capture_output=True, env=env)
with open(shared + "/program", "w") as file:
    file.write("#!/bin/sh\\necho ran > " + shared + "/ran-$$\\ncat\\n")
os.chmod(shared + "/program", 0o755)
in_git("init", "-q")
with open(top + "/file", "w") as file:
    file.write(content)
in_git("add", "file")
in_git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one")
if way == "fetches a missing commit":
    in_git("config", "core.repositoryFormatVersion", "1")
    for key, value in (("url", top), ("promisor", "true"), ("uploadpack", shared + "/program")):
        in_git("config", "remote.origin." + key, value)
    in_git("config", "extensions.partialClone", "origin")
    in_git("config", "core.worktree", worktree)
    for file in glob.glob(top + "/.git/objects/??/*"):
        os.unlink(file)
    os.rename(top + "/.git", shared + "/.git")
else:
    in_git("config", "filter.theirs.clean", shared + "/program")
    in_git("config", "core.worktree", worktree)
    os.makedirs(top + "/.git/info", exist_ok=True)
    with open(top + "/.git/info/attributes", "w") as file:
        file.write("* filter=theirs")
    for name in ("HEAD", "config", "index", "info", "objects", "refs"):
        os.rename(top + "/.git/" + name, shared + "/" + name)
"""
WAYS = ["fetches a missing commit", "has no .git"]


@pytest.fixture
def shared() -> Iterator[Path]:
    with shared_folder() as folder:
        yield folder


@pytest.fixture
def project(shared: Path, tmp_path: Path) -> Path:
    """A folder of ours in a shared one, and a checkout of ours elsewhere, to which a repository can point."""
    subprocess.run(["git", "init", "-q", tmp_path / "checkout"], check=True)
    folder = shared / "project"
    folder.mkdir()
    (folder / "file").write_text("same")
    return folder


@pytest.mark.parametrize("way", WAYS)
def test_a_planted_repository_runs_no_program(shared: Path, project: Path, tmp_path: Path, way: str) -> None:
    is_bare = way == "has no .git"
    run(PLANTS_A_REPOSITORY, shared, way, project if is_bare else tmp_path / "checkout", "same")
    assert git.describe(project) is None
    assert git.commit_place(project, None) is None
    assert git.contents(project) == ""
    with pytest.raises(BenchError, match="planted"):
        Repository(project)
    assert not list(shared.glob("ran-*"))


def test_the_heads_of_another_users_checkout_are_read_without_its_programs(tmp_path: Path) -> None:
    """Nobody planted it: we went there. What it lacks is not fetched."""
    with shared_folder() as shared, shared_folder(0o755) as home:
        theirs = home / "theirs"
        theirs.mkdir()
        run(PLANTS_A_REPOSITORY, shared, WAYS[0], tmp_path, "same")
        (shared / ".git").rename(theirs / ".git")
        subprocess.run(["git", "config", "-f", theirs / ".git" / "config", "--unset", "core.worktree"], check=True)
        state = git.describe(theirs)
        assert state is not None
        assert state.commit is not None
        assert git.commit_place(theirs, state.branch) is None
        assert not list(shared.glob("ran-*"))


PLANTS_A_PROGRAM = """
with open(sys.argv[1] + "/git", "w") as file:
    file.write("#!/bin/sh\\necho ran > " + sys.argv[1] + "/ran-$$\\n")
os.chmod(sys.argv[1] + "/git", 0o755)
"""


@pytest.mark.parametrize("entry", [".", "", "{shared}"])
def test_a_program_in_a_folder_open_to_all_is_not_taken_for_git(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    """Nor one in the working folder, which a PATH may name."""
    run(PLANTS_A_PROGRAM, shared)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.chdir(shared)
    monkeypatch.setenv("PATH", os.pathsep.join([entry.format(shared=shared), os.environ["PATH"]]))
    state = git.describe(tmp_path)
    assert state is not None
    assert state.top == str(tmp_path)
    assert Repository(tmp_path).top == tmp_path
    assert not list(shared.glob("ran-*"))
