"""A git checkout that is moved through its commits while bisecting, and restored afterwards.

`git bisect` keeps where it began, so `git bisect reset` restores the checkout even after a power cut.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from curator_bench.errors import BenchError
from curator_bench.files.checkouts import is_in_planted_checkout
from curator_bench.hunting.children import environment
from curator_bench.measure.processes import ProcessId, identify, is_running
from curator_bench.provenance.git import Commit, only_programs_of_ours
from curator_bench.verdict.requirements import nearest_names

_MARKER = "curator-bench-bisect"
_FOUND = re.compile(r"^# first bad commit: \[([0-9a-f]+)\]", re.MULTILINE)
_POSSIBLE = re.compile(r"^# possible first bad commit: \[([0-9a-f]+)\]", re.MULTILINE)


class Repository:
    """One checkout. It is moved only within `hunting()`."""

    def __init__(self, path: Path) -> None:
        if is_in_planted_checkout(path):
            raise BenchError(f"{path} is in a git repository that another user has planted")
        self.top = path
        problem = f"{path.absolute()} is not a git checkout: name one with --repo"
        self.top = Path(self._git("rev-parse", "--show-toplevel", problem=problem))
        self._directory = Path(self._git("rev-parse", "--absolute-git-dir"))

    def commit(self, ref: str) -> Commit:
        """Return a commit. Raises BenchError if the name is unknown here."""
        found = self._run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        if found.returncode:
            said = found.stderr.strip()
            raise BenchError(f"no commit {ref!r} in {self.top}{said and f': {said}'}{self._meant(ref)}")
        sha = found.stdout.strip()
        subject, author, date = self._git("log", "-1", "--format=%s%x00%an%x00%as", sha).split("\0")
        return Commit(sha, subject, author, date)

    def _meant(self, ref: str) -> str:
        """Return advice for a name that is unknown here: branches and tags like it, or that the clone is shallow."""
        names = self._run("for-each-ref", "--format=%(refname:short)").stdout.split()
        if near := nearest_names(ref, names):
            return f"; did you mean {', '.join(map(repr, near))}?"
        is_shallow = self._run("rev-parse", "--is-shallow-repository").stdout.strip() == "true"
        return "; the clone is shallow: run `git fetch --unshallow --tags`" if is_shallow else ""

    def _instead(self, good: Commit, bad: Commit) -> str:
        if not self._fails("merge-base", "--is-ancestor", bad.sha, good.sha):
            return "it comes before it; exchange --good and --bad"
        common = self._run("merge-base", good.sha, bad.sha).stdout.strip()
        return f"both come after {common[:12]}; use that as --good" if common else "they have no commit in common"

    def between(self, good: Commit, bad: Commit) -> list[str]:
        """Return the commits after the good one up to the bad one, oldest first."""
        if good.sha == bad.sha:
            raise BenchError(f"good and bad are the same commit: {good}")
        if self._fails("merge-base", "--is-ancestor", good.sha, bad.sha):
            raise BenchError(
                f"the bad commit {bad.short} does not come after the good one {good.short}: {self._instead(good, bad)}"
            )
        return self._git("rev-list", "--reverse", "--topo-order", f"{good.sha}..{bad.sha}").splitlines()

    @contextmanager
    def hunting(self) -> Iterator[None]:
        """Move the checkout within the block. However it ends, the checkout returns to its branch or commit."""
        self._recover()
        self._refuse_changes()
        stood = self._position()
        with self._claimed():
            self._git("bisect", "start")
            try:
                yield
            finally:
                self._restore(stood)

    def move_to(self, sha: str) -> None:
        self._discard()
        before = self._git("rev-parse", "HEAD")
        self._git("checkout", "--quiet", "--detach", sha)
        self._forget_compiled(before, sha)

    def head(self) -> str:
        return self._git("rev-parse", "HEAD")

    def bisect(self, word: str, sha: str) -> None:
        """Tell git the judgement: `good`, `bad` or `skip`. Git then checks out the next commit."""
        self._discard()
        before = self.head()
        done = self._run("bisect", word, sha)
        if done.returncode and not (self.culprit() or self.suspects()):
            raise BenchError(f"git bisect {word}: {done.stderr.strip() or done.stdout.strip()}")
        self._forget_compiled(before, self.head())

    def culprit(self) -> str | None:
        """Return the first bad commit once git knows it."""
        found = _FOUND.search(self._git("bisect", "log"))
        return found[1] if found else None

    def suspects(self) -> list[str]:
        """Return the possible first bad commits, if all others were skipped."""
        return _POSSIBLE.findall(self._git("bisect", "log"))

    def _refuse_changes(self) -> None:
        if changed := self._changed():
            raise BenchError(f"{self.top} has changes that are not committed ({changed}): commit or stash them first")

    def _changed(self) -> str:
        """Return the first few tracked files with uncommitted changes."""
        lines = self._git("status", "--porcelain", "--untracked-files=no").splitlines()
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
        self._git("bisect", "reset")

    def _is_bisecting(self) -> bool:
        return Path(self.top, self._git("rev-parse", "--git-path", "BISECT_START")).exists()

    def _owner(self) -> ProcessId | None:
        """Return the process that started the bisect in progress, or None if it is not ours."""
        try:
            said = json.loads((self._directory / _MARKER).read_text("utf-8"))
            return ProcessId(pid=int(said["pid"]), started=float(said["started"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @contextmanager
    def _claimed(self) -> Iterator[None]:
        marker, own = self._directory / _MARKER, identify(os.getpid())
        marker.write_text(json.dumps({"pid": os.getpid(), "started": own.started if own else 0.0}), "utf-8")
        try:
            yield
        finally:
            marker.unlink(missing_ok=True)

    def _position(self) -> tuple[str, str]:
        """Return the branch, which is empty if the head is detached, and the commit."""
        branch = self._run("symbolic-ref", "--quiet", "--short", "HEAD").stdout.strip()
        return branch, self.head()

    def _restore(self, stood: tuple[str, str]) -> None:
        self._discard()
        before = self.head()
        self._git("bisect", "reset")
        if self._position() != stood:
            branch, sha = stood
            raise BenchError(f"{self.top} could not be restored: run `git checkout {branch or sha}` there")
        self._forget_compiled(before, stood[1])

    def _discard(self) -> None:
        """Discard changes that builds made to tracked files. The user had none when this began."""
        self._git("reset", "--quiet", "--hard")

    def _forget_compiled(self, before: str, after: str) -> None:
        """Remove compiled files of changed sources. Python uses them if size and time (in seconds) are equal."""
        changed = self._git("diff", "--name-only", "-z", before, after, "--", "*.py")
        for name in changed.split("\0"):
            file = self.top / name
            for compiled in file.parent.glob(f"__pycache__/{file.stem}.*.pyc") if name else ():
                compiled.unlink(missing_ok=True)

    def _fails(self, *words: str) -> bool:
        return self._run(*words).returncode != 0

    def _git(self, *words: str, problem: str = "") -> str:
        done = self._run(*words)
        if done.returncode:
            said = done.stderr.strip() or ("" if problem else f"exit code {done.returncode}")
            raise BenchError(": ".join(part for part in (problem or f"{self.top}: git {words[0]}", said) if part))
        return done.stdout.rstrip("\n")

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run git to its end. Stopping it half-way would leave its lock and half a checkout."""
        command = ["git", "-C", str(self.top), *words]
        env = environment({"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"})
        try:
            child = subprocess.Popen(
                command,
                env=env | only_programs_of_ours(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="surrogateescape",
                start_new_session=True,
            )
        except OSError as error:
            raise BenchError(f"git cannot be started: {error.strerror or error}") from error
        try:
            output, errors = child.communicate()
        except BaseException:
            child.communicate()
            raise
        return subprocess.CompletedProcess(command, child.returncode, output, errors)
