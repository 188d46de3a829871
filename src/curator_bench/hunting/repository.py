"""A git checkout that is moved through its commits while bisecting, and restored afterwards.

`git bisect` keeps where it began, so `git bisect reset` restores the checkout even after a power cut.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from curator_bench.errors import BenchError
from curator_bench.hunting.checkout import Checkout
from curator_bench.measure.processes import ProcessId, identify, is_running
from curator_bench.provenance.git import Commit

_MARKER = "curator-bench-bisect"
_FOUND = re.compile(r"^# first bad commit: \[([0-9a-f]+)\]", re.MULTILINE)
_POSSIBLE = re.compile(r"^# possible first bad commit: \[([0-9a-f]+)\]", re.MULTILINE)


class Repository(Checkout):
    """One checkout. It is moved only within `hunting()`."""

    def _instead(self, good: Commit, bad: Commit) -> str:
        if self.comes_before(bad, good):
            return "it comes before it; exchange --good and --bad"
        common = self.tried("merge-base", good.sha, bad.sha).stdout.strip()
        return f"both come after {common[:12]}; use that as --good" if common else "they have no commit in common"

    def between(self, good: Commit, bad: Commit) -> list[str]:
        """Return the commits after the good one up to the bad one, oldest first."""
        if good.sha == bad.sha:
            raise BenchError(f"good and bad are the same commit: {good}")
        if not self.comes_before(good, bad):
            raise BenchError(
                f"the bad commit {bad.short} does not come after the good one {good.short}: {self._instead(good, bad)}"
            )
        return self.git("rev-list", "--reverse", "--topo-order", f"{good.sha}..{bad.sha}").splitlines()

    @contextmanager
    def hunting(self) -> Iterator[None]:
        """Move the checkout within the block. However it ends, the checkout returns to its branch or commit."""
        self._recover()
        self._refuse_changes()
        stood = self._position()
        with self._claimed():
            self.git("bisect", "start")
            try:
                yield
            finally:
                self._restore(stood)

    def move_to(self, sha: str) -> None:
        self._discard()
        before = self.git("rev-parse", "HEAD")
        self.git("checkout", "--quiet", "--detach", sha)
        self._forget_compiled(before, sha)

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def bisect(self, word: str, sha: str) -> None:
        """Tell git the judgement: `good`, `bad` or `skip`. Git then checks out the next commit."""
        self._discard()
        before = self.head()
        done = self.tried("bisect", word, sha)
        if done.returncode and not (self.culprit() or self.suspects()):
            raise BenchError(f"git bisect {word}: {done.stderr.strip() or done.stdout.strip()}")
        self._forget_compiled(before, self.head())

    def culprit(self) -> str | None:
        """Return the first bad commit once git knows it."""
        found = _FOUND.search(self.git("bisect", "log"))
        return found[1] if found else None

    def suspects(self) -> list[str]:
        """Return the possible first bad commits, if all others were skipped."""
        return _POSSIBLE.findall(self.git("bisect", "log"))

    def left(self) -> list[str]:
        """Return the commits among which the first bad one is, as far as bisecting has come, newest first."""
        return self.git(
            "rev-list", "--topo-order", "refs/bisect/bad", "--not", "--glob=refs/bisect/good-*"
        ).splitlines()

    def _refuse_changes(self) -> None:
        if changed := self._changed():
            raise BenchError(f"{self.top} has changes that are not committed ({changed}): commit or stash them first")

    def _changed(self) -> str:
        """Return the first few tracked files with uncommitted changes."""
        lines = self.git("status", "--porcelain", "--untracked-files=no").splitlines()
        return ", ".join(line[3:] for line in lines[:5])

    def _recover(self) -> None:
        """Undo what a killed process of ours left. A bisect the user started is left alone."""
        if not self._is_bisecting():
            return
        owner = self._owner()
        if owner is None:
            raise BenchError(f"a git bisect is in progress in {self.top}: end it with `git bisect reset` first")
        if is_running(owner):
            raise BenchError(f"another bisect is in progress in {self.top}, by process {owner.pid}: wait for its end")
        if changed := self._changed():
            raise BenchError(
                f"a bisect that was killed has left {self.top} with changed files ({changed}). If no change is"
                f" yours, run `git -C {self.top} reset --hard && git -C {self.top} bisect reset`"
            )
        self.git("bisect", "reset")

    def _is_bisecting(self) -> bool:
        return Path(self.top, self.git("rev-parse", "--git-path", "BISECT_START")).exists()

    def _owner(self) -> ProcessId | None:
        """Return the process that started the bisect in progress, or None if it is not ours."""
        try:
            said = json.loads((self.directory / _MARKER).read_text("utf-8"))
            return ProcessId(pid=int(said["pid"]), started=float(said["started"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @contextmanager
    def _claimed(self) -> Iterator[None]:
        marker, own = self.directory / _MARKER, identify(os.getpid())
        marker.write_text(json.dumps({"pid": os.getpid(), "started": own.started if own else 0.0}), "utf-8")
        try:
            yield
        finally:
            marker.unlink(missing_ok=True)

    def _position(self) -> tuple[str, str]:
        """Return the branch, which is empty if the head is detached, and the commit."""
        branch = self.tried("symbolic-ref", "--quiet", "--short", "HEAD").stdout.strip()
        return branch, self.head()

    def _restore(self, stood: tuple[str, str]) -> None:
        self._discard()
        before = self.head()
        self.git("bisect", "reset")
        if self._position() != stood:
            branch, sha = stood
            raise BenchError(f"{self.top} could not be restored: run `git checkout {branch or sha}` there")
        self._forget_compiled(before, stood[1])

    def _discard(self) -> None:
        """Discard changes that builds made to tracked files. The user had none when this began."""
        self.git("reset", "--quiet", "--hard")

    def _forget_compiled(self, before: str, after: str) -> None:
        """Remove compiled files of changed sources. Python uses them if size and time (in seconds) are equal."""
        changed = self.git("diff", "--name-only", "-z", before, after, "--", "*.py")
        for name in changed.split("\0"):
            file = self.top / name
            for compiled in file.parent.glob(f"__pycache__/{file.stem}.*.pyc") if name else ():
                compiled.unlink(missing_ok=True)
