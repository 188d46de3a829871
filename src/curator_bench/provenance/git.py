"""The state of a git checkout: its commit, its branch, whether anything tracked was changed. It never asks or waits."""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger(__name__)

_NOT_HERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE")
"""What a git hook sets for the repository it runs in; it must not lead us there."""


@dataclass(frozen=True, slots=True)
class GitState:
    """What is checked out. None: not known, or (commit) there is none yet, or (branch) the head is detached."""

    top: str
    commit: str | None
    branch: str | None
    dirty: bool | None
    """Whether tracked files were changed; new ones do not count, for results are written into checkouts."""


def describe(path: Path, patience_s: float = 5.0) -> GitState | None:
    """The checkout that `path` stands in; None outside of one, and without git.

    Each question to git is given up after `patience_s`; a checkout too large to look through by then keeps its commit.
    """
    ask = _Git(path if path.is_dir() else path.parent, patience_s)
    top = ask("rev-parse", "--show-toplevel")
    status = top and ask("status", "--porcelain=v2", "--branch", "--untracked-files=no")
    return _parsed(top, status) if top and status else _heads_only(ask)


def log_between(path: Path, before: str, since: str, patience_s: float = 5.0) -> list[str] | None:
    """A line for each commit after `before` up to `since`, the newest first; None where this checkout lacks one."""
    ask = _Git(path, patience_s)
    if not all(ask("cat-file", "-e", f"{commit}^{{commit}}") is not None for commit in (before, since)):
        return None
    said = ask("log", "--format=%h %as %an: %s", "--end-of-options", f"{before}..{since}")
    return None if said is None else said.splitlines()


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag: its name, the commit it names, and when it was made, in seconds since 1970."""

    name: str
    commit: str
    time: float


def tags(path: Path, patience_s: float = 5.0) -> list[Tag]:
    """The tags of the checkout, the oldest first; none outside of one."""
    form = "%(creatordate:unix) %(objectname) %(*objectname) %(refname:strip=2)"
    said = _Git(path, patience_s)("for-each-ref", "--sort=creatordate", f"--format={form}", "refs/tags")
    parts = [line.split(" ", 3) for line in (said or "").splitlines()]
    return [Tag(name, peeled or own, float(time)) for time, own, peeled, name in parts if time]


def contents(path: Path, patience_s: float = 5.0) -> str:
    """The same as long as the tracked files of the checkout are the same; empty outside of one."""
    ask = _Git(path, patience_s)
    return "".join(
        ask(*words) or "" for words in (("rev-parse", "HEAD"), ("diff", "HEAD", "--no-ext-diff", "--binary"))
    )


@dataclass(frozen=True, slots=True)
class _Git:
    """Asks git about one directory; the answer is None when it refuses, hangs, or is not there."""

    directory: Path
    patience_s: float

    def __call__(self, *words: str) -> str | None:
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
    return elsewhere(ours) | quiet


def elsewhere(ours: Mapping[str, str]) -> dict[str, str]:
    """An environment in which git goes by the folder it is asked about."""
    return {name: value for name, value in ours.items() if name not in _NOT_HERE}


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


def _heads_only(ask: _Git) -> GitState | None:
    """For a checkout that takes too long to look through, or that git does not trust because another user owns it.

    The latter is usual in containers. Reading the heads is safe: no program that a checkout may name is run for that.
    """
    trust = ("-c", "safe.directory=*")
    top = ask(*trust, "rev-parse", "--show-toplevel")
    if top is None:
        return None
    commit = ask(*trust, "rev-parse", "--verify", "--quiet", "HEAD")
    branch = ask(*trust, "symbolic-ref", "--quiet", "--short", "HEAD")
    return GitState(top, commit, branch, dirty=None)
