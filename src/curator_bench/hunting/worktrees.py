"""Commits side by side: each has a folder with a git worktree and its environments, which are kept for some days."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path, PurePosixPath

from curator_bench.errors import BenchError
from curator_bench.hunting import kept_folders
from curator_bench.hunting.checkout import Checkout
from curator_bench.hunting.kept_folders import kept_root, note_use
from curator_bench.provenance.git import Commit

WORKING_TREE = "."
"""The name of the files as they are, with what is not committed."""
KEPT_FOLDERS = 20
_KIND, _TREE = "commits", "tree"
_DATABASE = re.compile(r"\.db(-wal|-shm|-journal)?\Z")
_AUTHOR = ("curator-bench", "curator-bench@localhost")


class CommitFolder:
    """The folder of one commit."""

    def __init__(self, checkout: Checkout, commit: Commit) -> None:
        self._checkout = checkout
        self.commit = commit
        self.folder = _folder_of(checkout) / commit.sha[:16]

    @property
    def tree(self) -> Path:
        return self.folder / _TREE

    def check_out(self) -> None:
        """Check the commit out, as it was committed."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._is_restored():
            shutil.rmtree(self.tree, ignore_errors=True)
            # Twice: a git that was killed may have left it locked.
            words = ("--quiet", "--force", "--force", "--detach", str(self.tree), self.commit.sha)
            self._checkout.git("worktree", "add", *words)
        if (self.tree / ".gitmodules").exists():
            Checkout(self.tree).git("submodule", "--quiet", "update", "--init", "--recursive")
        note_use(self.folder)

    def take(self, other: Commit, paths: list[str]) -> None:
        """Replace files, which are named from the top, by those of another commit."""
        Checkout(self.tree).git("restore", f"--source={other.sha}", "--worktree", "--", *paths)

    def _is_restored(self) -> bool:
        """Restore the worktree of an earlier comparison; false if there is none, or only what a killed one left."""
        try:
            if not (self.tree / ".git").exists() or not (tree := Checkout(self.tree)).top.samefile(self.tree):
                return False
            tree.git("reset", "--quiet", "--hard", self.commit.sha)
            tree.git("clean", "--quiet", "--force", "-d")
        except BenchError:
            return False
        return True


def named_commit(checkout: Checkout, name: str) -> Commit:
    """Return the commit of a name. `.` is the working tree: what is not committed becomes a commit of no branch."""
    return _snapshot(checkout) if name == WORKING_TREE else checkout.commit(name)


def _snapshot(checkout: Checkout) -> Commit:
    """Make a commit of the files as they are, without those that git ignores. Equal files make the same commit."""
    head = checkout.commit("HEAD")
    with tempfile.TemporaryDirectory(prefix="cb-index-") as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
        checkout.git("read-tree", "HEAD", variables=index)
        checkout.git("add", "--update", "--", ":/", variables=index)
        new = Path(folder, "new")
        new.write_bytes(b"\0".join(os.fsencode(f":(top,literal){name}") for name in _new_files(checkout)))
        if new.stat().st_size:
            checkout.git("add", f"--pathspec-from-file={new}", "--pathspec-file-nul", variables=index)
        tree = checkout.git("write-tree", variables=index)
    if tree == checkout.git("rev-parse", "HEAD^{tree}"):
        return head
    words = ("commit-tree", tree, "-p", head.sha, "-m", f"Uncommitted changes on {head.short}")
    return checkout.commit(checkout.git(*words, variables=_authorship(checkout, head)))


def _new_files(checkout: Checkout) -> list[str]:
    """Return files that git does not know yet, from the top, but for what benchmarks have measured."""
    found = checkout.git("ls-files", "--others", "--exclude-standard", "--full-name", "-z", "--", ":/").split("\0")
    return [name for name in found if name and not _is_measured(PurePosixPath(name))]


def _is_measured(file: PurePosixPath) -> bool:
    return "results" in file.parts[:-1] or _DATABASE.search(file.name) is not None


def _authorship(checkout: Checkout, head: Commit) -> dict[str, str]:
    date = checkout.git("log", "-1", "--format=%cI", head.sha)
    name, address = _AUTHOR
    return {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", name), ("EMAIL", address), ("DATE", date))
    }


def remove_unused(checkout: Checkout) -> None:
    """Remove folders of commits, of any repository, that were not used for some days, and the oldest of many."""
    kept_folders.remove_unused(kept_root(_KIND), KEPT_FOLDERS)
    checkout.git("worktree", "prune")


def _folder_of(checkout: Checkout) -> Path:
    common = Path(checkout.git("rev-parse", "--path-format=absolute", "--git-common-dir"))
    key = hashlib.sha256(os.fsencode(common)).hexdigest()[:8]
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", checkout.top.name)
    return kept_root(_KIND) / f"{name}-{key}"
