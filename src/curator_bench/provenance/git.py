"""State of a git checkout: commit, branch, and changes to tracked files. It never prompts and never hangs."""

from __future__ import annotations

import logging
import os
import re
import subprocess
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from curator_bench.files.checkouts import is_checkout, is_in_planted_checkout
from curator_bench.files.planted import everybody_can_create_files_in
from curator_bench.values import CommitPlace

_ID = re.compile("[0-9a-f]{7,64}")
_COMMITS_AT_ONCE = 500
logger = logging.getLogger(__name__)

_NOT_HERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE")
"""Variables a git hook sets for its own repository. They must not redirect our calls."""
_TRUST = ("-c", "safe.directory=*")
"""Options with which git reads the heads of another user's checkout."""
_NO_TRANSPORT = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
"""Variables that keep git from fetching a missing object, with a program that the checkout names."""


@dataclass(frozen=True, slots=True)
class GitState:
    """State of a checkout.

    None means unknown. `commit` is None in an empty repository, too, and `branch` with a detached head.
    """

    top: str
    commit: str | None
    branch: str | None
    dirty: bool | None
    """True if tracked files were changed. New files do not count, because results are written into checkouts."""
    is_bisecting: bool = False
    """True while a git bisect is under way in it."""


def describe(path: Path, patience_s: float = 5.0) -> GitState | None:
    """Describe the checkout that contains `path`; None outside of one, and without git.

    Each call of git is given up after `patience_s`. A checkout too large to scan in that time still has its commit.
    """
    ask = _Git(path if path.is_dir() else path.parent, patience_s)
    top = ask("rev-parse", "--show-toplevel")
    status = top and ask("status", "--porcelain=v2", "--branch", "--untracked-files=no")
    state = _parsed(top, status) if top and status else _heads_only(ask)
    return state and replace(state, is_bisecting=_is_bisecting(ask))


def commit_place(path: Path, branch: str | None, patience_s: float = 5.0) -> CommitPlace | None:
    """Look up where the commit of a checkout stands; None outside of one, and in a shallow one.

    `branch` is that of the checkout; None if it is detached.
    """
    ask = _Git(path if path.is_dir() else path.parent, patience_s)
    if ask(*_TRUST, "rev-parse", "--is-shallow-repository") != "false":
        return None
    time = ask(*_TRUST, "log", "-1", "--no-show-signature", "--format=%ct", "HEAD")
    depth = ask(*_TRUST, "rev-list", "--first-parent", "--count", "HEAD")
    if not time or not depth:
        return None
    return CommitPlace(int(depth), float(time), (branch,) if branch else _branches_with_head(ask))


def _branches_with_head(ask: _Git) -> tuple[str, ...]:
    """List the branches that contain the commit, those of remotes by their own names."""
    known = ("refs/heads", "refs/remotes")
    said = ask(*_TRUST, "for-each-ref", "--contains=HEAD", "--format=%(refname)", *known) or ""
    names = (line.split("/", 2 if line.startswith("refs/heads/") else 3)[-1] for line in said.splitlines())
    return tuple(dict.fromkeys(name for name in names if name != "HEAD"))


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit as people know it."""

    sha: str
    subject: str
    author: str
    date: str
    """The day it was written."""

    @property
    def short(self) -> str:
        return self.sha[:12]

    def __str__(self) -> str:
        return f"{self.short} {self.subject}"


def commits_between(path: Path, before: str, since: str, patience_s: float = 5.0) -> list[Commit] | None:
    """List the commits after `before` up to `since`, newest first; None if this checkout lacks one of them."""
    said = _Git(path, patience_s)("log", "--format=%H%x00%s%x00%an%x00%as", "--end-of-options", f"{before}..{since}")
    return None if said is None else [Commit(*line.split("\0")) for line in said.split("\n") if line]


def commits_named(path: Path, names: Sequence[str], patience_s: float = 5.0) -> dict[str, Commit]:
    """Look up commits by their full or short ids; those that this checkout lacks are left out."""
    known = sorted({name for name in names if _ID.fullmatch(name)})
    words = ("log", "--no-walk=unsorted", "--ignore-missing", "--format=%H%x00%s%x00%an%x00%as", "--end-of-options")
    found: list[Commit] = []
    for first in range(0, len(known), _COMMITS_AT_ONCE):
        said = _Git(path, patience_s)(*words, *known[first : first + _COMMITS_AT_ONCE])
        found += [Commit(*line.split("\0")) for line in (said or "").split("\n") if line]
    shas = sorted(found, key=lambda one: one.sha)
    starts = [one.sha for one in shas]
    near = {name: bisect_left(starts, name) for name in known}
    return {name: shas[at] for name, at in near.items() if at < len(shas) and starts[at].startswith(name)}


def commit_called(path: Path, name: str, patience_s: float = 5.0) -> str | None:
    """Return the full id of the commit that git calls so (HEAD~1, a branch, a tag, a short id), or None."""
    said = _Git(path, patience_s)("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    lines = (said or "").split()
    return lines[-1] if lines else None


def commits_around(path: Path, commit: str, patience_s: float = 5.0) -> tuple[list[str], list[str]]:
    """List the commits before this one by first parents, and those after it on any branch, each the nearest first."""
    ask = _Git(path, patience_s)
    before = ask("rev-list", "--first-parent", f"{commit}^@")
    after = ask("rev-list", "--reverse", "--ancestry-path", "HEAD", "--branches", f"^{commit}")
    return (before or "").split(), (after or "").split()


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag: its name, its commit, and its date in seconds since 1970."""

    name: str
    commit: str
    time: float


def tags(path: Path, patience_s: float = 5.0) -> list[Tag]:
    """List the tags of the checkout, oldest first; empty outside of one."""
    form = "%(creatordate:unix) %(objectname) %(*objectname) %(refname:strip=2)"
    said = _Git(path, patience_s)("for-each-ref", "--sort=creatordate", f"--format={form}", "refs/tags")
    parts = [line.split(" ", 3) for line in (said or "").splitlines()]
    return [Tag(name, peeled or own, float(time)) for time, own, peeled, name in parts if time]


def contents(path: Path, patience_s: float = 5.0) -> str:
    """Text that changes with the tracked files of the checkout; empty outside of one."""
    ask = _Git(path, patience_s)
    return "".join(
        ask(*words) or "" for words in (("rev-parse", "HEAD"), ("diff", "HEAD", "--no-ext-diff", "--binary"))
    )


@dataclass(frozen=True, slots=True)
class _Git:
    """Runs git for one directory. The answer is None if git refuses, hangs, or is not installed."""

    directory: Path
    patience_s: float

    def __call__(self, *words: str) -> str | None:
        if is_in_planted_checkout(self.directory):
            return None
        command = ["git", "-C", str(self.directory), "-c", "core.fsmonitor=false", *words]
        try:
            return os.fsdecode(self._output_of(command)).rstrip("\n")
        except subprocess.CalledProcessError as refusal:
            reason = refusal.stderr.decode(errors="replace").strip()
        except (OSError, subprocess.TimeoutExpired) as failure:  # no git, no such directory, a disk that hangs
            reason = str(failure)
        logger.debug("%s: %s", " ".join(command), reason)
        return None

    def _output_of(self, command: list[str]) -> bytes:
        done = subprocess.run(
            command,
            env=_environment(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=self.patience_s,
            check=True,
        )
        return done.stdout


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    return elsewhere(ours) | quiet | _NO_TRANSPORT | only_programs_of_ours(ours)


def elsewhere(ours: Mapping[str, str]) -> dict[str, str]:
    """Environment in which git uses the given folder, without a hook's variables."""
    return {name: value for name, value in ours.items() if name not in _NOT_HERE}


def only_programs_of_ours(ours: Mapping[str, str]) -> dict[str, str]:
    """PATH without the working folder and folders in which everybody can put a program called git."""
    folders = [folder for folder in ours.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)]
    return {"PATH": os.pathsep.join(folder for folder in folders if not everybody_can_create_files_in(Path(folder)))}


def _parsed(top: str, status: str) -> GitState:
    lines = status.splitlines()
    headers = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# "))
    commit, branch = headers.get("branch.oid"), headers.get("branch.head")
    return GitState(
        top=top,
        commit=None if commit == "(initial)" else commit,
        branch=None if branch == "(detached)" else branch,
        dirty=any(not line.startswith("#") for line in lines),
    )


def _is_bisecting(ask: _Git) -> bool:
    begun = ask(*_TRUST, "rev-parse", "--git-path", "BISECT_START")
    return begun is not None and (ask.directory / begun).exists()


def _heads_only(ask: _Git) -> GitState | None:
    """Read commit and branch only, for a checkout too large to scan or not trusted by git.

    Git does not trust a checkout of another user, which is usual in containers. Reading the heads is safe: it runs no
    program that a checkout may name, as nothing is fetched.
    """
    top = ask(*_TRUST, "rev-parse", "--show-toplevel")
    if top is None or not is_checkout(Path(top)):
        return None
    commit = ask(*_TRUST, "rev-parse", "--verify", "--quiet", "HEAD")
    branch = ask(*_TRUST, "symbolic-ref", "--quiet", "--short", "HEAD")
    return GitState(top, commit, branch, dirty=None)
