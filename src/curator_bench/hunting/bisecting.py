"""Bisecting: measure the good and the bad end first, then the commits that `git bisect` chooses."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from curator_bench.errors import BenchError
from curator_bench.hunting.bench import Bench, Runs
from curator_bench.hunting.building import Venv
from curator_bench.hunting.children import scratch_folder, tail_of
from curator_bench.hunting.halving import Judgement
from curator_bench.hunting.repository import Repository
from curator_bench.hunting.session_names import key_of
from curator_bench.hunting.trials import BudgetSpent, BuildFailure, Progress, Trials, Tried, nearest_ends
from curator_bench.provenance.git import Commit

if TYPE_CHECKING:
    from curator_bench.hunting.end_profiles import ProfiledEnds, ProfileRequest
    from curator_bench.hunting.trials import Ends
    from curator_bench.verdict.intervals import Change
    from curator_bench.verdict.judgement import Word
    from curator_bench.verdict.sequential import SequentialPlan

_CHANGING_BENCHMARKS = (
    "If the benchmarks change with the commits, copy them out of the repository and name the copy after --"
)
TriedCommit: TypeAlias = Tried[Commit]


@dataclass(frozen=True, slots=True)
class BisectRequest:
    """The user's request: the two ends, and how to install a commit."""

    good: str
    bad: str
    install: str | None = None
    skip_build_failures: bool = False
    profile: ProfileRequest | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of bisecting. Without a culprit, `difference` gives the reason, or `suspects` are left."""

    difference: Word
    ends: Change
    tried: tuple[TriedCommit, ...]
    culprit: Commit | None = None
    suspects: tuple[Commit, ...] = ()
    is_budget_spent: bool = False
    profiled: ProfiledEnds | None = None
    """The last good and the first bad commit by functions, if that was asked for."""


def hunt_key(bench: Bench, request: BisectRequest, good: Commit, bad: Commit) -> str:
    """Return a key that is equal for equal questions, in any folder. It finds earlier measurements again."""
    return key_of([good.sha, bad.sha, bench.entry, request.install or "", *bench.pytest_args])


class Bisection:
    """Bisecting in one repository. Names of its measuring sessions begin with `session`."""

    def __init__(
        self,
        repository: Repository,
        bench: Bench,
        request: BisectRequest,
        plan: SequentialPlan,
        session: str,
        tell: Progress,
        deadline: float = math.inf,
    ) -> None:
        self._repository = repository
        self._bench = bench
        self._request = request
        self._tell = tell
        self._trials = Trials(bench, self._prepare, plan, session, tell, "commit", _CHANGING_BENCHMARKS, deadline)
        self._venv: Venv | None = None
        self._installed = ""
        self._tried: list[TriedCommit] = []

    def run(self, good: Commit, bad: Commit) -> Outcome:
        stood = self._repository.head()
        with self._environment():
            try:
                with self._repository.hunting():
                    return self._hunted(good, bad)
            finally:
                self._install_again(stood)

    @contextmanager
    def _environment(self) -> Iterator[None]:
        """Make the environment that commits are installed into, so that the user's stays as it is."""
        if self._request.install is None:
            yield
            return
        with scratch_folder() as folder:
            self._venv = Venv(folder / "venv", sys.executable, "--install")
            self._venv.create(for_commands=True)
            self._bench = replace(self._bench, python=self._venv.python, env=self._venv.variables)
            yield

    def _hunted(self, good: Commit, bad: Commit) -> Outcome:
        from curator_bench.verdict.judgement import Word

        ends = self._trials.ends(good, bad)
        self._tried = list(ends.tried(good, bad))
        if ends.word is not Word.REGRESSION:
            return Outcome(ends.word, ends.change, tuple(self._tried))
        found = self._searched(ends, good, bad)
        return found if self._request.profile is None else replace(found, profiled=self._profiled(found, good, bad))

    def _searched(self, ends: Ends[Commit], good: Commit, bad: Commit) -> Outcome:
        """Let git lead to the culprit."""
        self._tell(f"good and bad differ by {ends.change.change:+.1%}; bisecting")
        self._repository.bisect("bad", bad.sha)
        self._repository.bisect("good", good.sha)
        try:
            while (culprit := self._repository.culprit()) is None and not self._repository.suspects():
                self._step(ends)
        except BudgetSpent:
            return self._unfinished(ends, self._repository.left(), is_budget_spent=True)
        if culprit is not None:
            return Outcome(ends.word, ends.change, tuple(self._tried), self._repository.commit(culprit))
        return self._unfinished(ends, self._repository.suspects())

    def _profiled(self, found: Outcome, good: Commit, bad: Commit) -> ProfiledEnds:
        """Profile the last good commit and the first bad one."""
        assert self._request.profile is not None
        if found.culprit is not None:
            self._tell(f"the first bad commit is {found.culprit}")
        place = {sha: number for number, sha in enumerate(self._repository.between(good, bad), 1)}
        two = nearest_ends(sorted(self._tried, key=lambda one: place.get(one.of.sha, 0)))
        return self._trials.profiles(two, self._request.profile).profile(self._tell)

    def _unfinished(self, ends: Ends[Commit], suspects: Sequence[str], *, is_budget_spent: bool = False) -> Outcome:
        commits = tuple(self._repository.commit(sha) for sha in reversed(suspects))
        return Outcome(ends.word, ends.change, tuple(self._tried), None, commits, is_budget_spent)

    def _step(self, ends: Ends[Commit]) -> None:
        """Judge the commit that git has checked out."""
        commit = self._repository.commit("HEAD")
        try:
            tried = self._trials.judge(commit, ends)
        except BuildFailure as failure:
            if not self._request.skip_build_failures:
                raise BenchError(f"{commit}: {failure}\n--skip-build-failures skips such commits") from None
            tried = Tried(commit, Runs(), Judgement.SKIPPED, "it cannot be installed")
        self._tried.append(tried)
        said = f"{tried.judgement}{' because ' + tried.why if tried.why else ''}"
        self._tell(f"{commit}: {len(tried.runs.values)} runs, {said}")
        word = "skip" if tried.judgement is Judgement.SKIPPED else str(tried.judgement)
        self._repository.bisect(word, commit.sha)

    def _prepare(self, commit: Commit) -> Bench:
        self._check_out(commit)
        return self._bench

    def _check_out(self, commit: Commit) -> None:
        if self._repository.head() != commit.sha:
            self._repository.move_to(commit.sha)
        if self._venv is not None and self._installed != commit.sha:
            self._install(self._venv, commit.sha)

    def _install(self, venv: Venv, sha: str) -> None:
        self._installed, command = "", self._request.install or ""
        venv.log.unlink(missing_ok=True)
        if code := venv.run(command, self._repository.top):
            raise BuildFailure(f"{command!r} ended with exit code {code}:\n{tail_of(venv.log)}")
        self._installed = sha

    def _install_again(self, sha: str) -> None:
        """Install the original commit again: what a command has built in the checkout belongs to it then."""
        if self._venv is None or self._installed == sha:
            return
        try:
            self._install(self._venv, sha)
        except BuildFailure as failure:
            self._tell(f"the checkout is restored, but the installation is not: {failure}")
