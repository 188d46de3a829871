"""Bisecting: measure the good and the bad end first, then the commits that `git bisect` chooses."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from curator_bench.errors import BenchError
from curator_bench.hunting.bench import Bench, Runs
from curator_bench.hunting.building import Venv
from curator_bench.hunting.children import scratch_folder, tail_of
from curator_bench.hunting.repository import Repository
from curator_bench.hunting.session_names import key_of
from curator_bench.provenance.git import Commit
from curator_bench.verdict.comparable import difference

if TYPE_CHECKING:
    from curator_bench.verdict.intervals import Change
    from curator_bench.verdict.judgement import Word
    from curator_bench.verdict.sequential import SequentialPlan, Side

_TRIES = 2
"""A commit cannot be judged if this many pytests in a row give no value."""
Progress = Callable[[str], None]


class BuildFailure(BenchError):
    """The install command failed for a commit."""


@dataclass(frozen=True, slots=True)
class BisectRequest:
    """The user's request: the two ends, and how to install a commit."""

    good: str
    bad: str
    install: str | None = None
    skip_build_failures: bool = False


class Judgement(StrEnum):
    GOOD = "good"
    BAD = "bad"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Tried:
    """One commit with its measurements and judgement."""

    commit: Commit
    runs: Runs
    judgement: Judgement | None
    """None for the two ends if they do not differ as they should."""
    why: str = ""
    is_undecided: bool = False
    """True if more runs might decide it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of bisecting. Without a culprit, `difference` gives the reason, or `suspects` are left."""

    difference: Word
    ends: Change
    tried: tuple[Tried, ...]
    culprit: Commit | None = None
    suspects: tuple[Commit, ...] = ()


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
    ) -> None:
        self._repository = repository
        self._bench = bench
        self._request = request
        self._plan = plan
        self._session = session
        self._tell = tell
        self._venv: Venv | None = None
        self._installed = ""
        self._tried: list[Tried] = []

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

        difference, change, ends = self._ends(good, bad)
        good_runs, bad_runs = ends
        if difference is not Word.REGRESSION:
            return Outcome(difference, change, _not_judged((good, good_runs), (bad, bad_runs)))
        self._tried = [Tried(good, good_runs, Judgement.GOOD), Tried(bad, bad_runs, Judgement.BAD)]
        self._tell(f"good and bad differ by {change.change:+.1%}; bisecting")
        self._repository.bisect("bad", bad.sha)
        self._repository.bisect("good", good.sha)
        while (culprit := self._repository.culprit()) is None and not self._repository.suspects():
            self._step(good_runs, bad_runs)
        if culprit is not None:
            return Outcome(difference, change, tuple(self._tried), self._repository.commit(culprit))
        suspects = tuple(self._repository.commit(sha) for sha in reversed(self._repository.suspects()))
        return Outcome(difference, change, tuple(self._tried), None, suspects)

    def _ends(self, good: Commit, bad: Commit) -> tuple[Word, Change, tuple[Runs, Runs]]:
        """Measure good and bad in turns until it is certain whether they differ.

        Taking turns spreads a drift of the machine over both.
        """
        import numpy as np

        from curator_bench.verdict.sequential import difference_of, is_settled

        for look in self._plan.end_looks():
            for commit, target in ((good, (look + 1) // 2), (bad, look), (good, look)):
                self._measure_end(commit, target)
            ends = self._known(good), self._known(bad)
            self._refuse_unlike(*ends)
            values = [np.array(runs.values[:look]) for runs in ends]
            found, change = difference_of(values[0], values[1], self._plan)
            self._tell(f"{look} runs each: bad is {change.change:+.1%}, {found}")
            if is_settled(found, change, self._plan):
                break
        return found, change, ends

    def _measure_end(self, commit: Commit, target: int) -> None:
        try:
            runs = self._measure(commit, target)
        except BuildFailure as failure:
            raise BenchError(f"{commit} is the good or the bad commit, and cannot be installed: {failure}") from failure
        if len(runs.values) < target:
            raise BenchError(f"{commit} is the good or the bad commit, and cannot be measured: {runs.problem}")

    def _refuse_unlike(self, good: Runs, bad: Runs) -> None:
        why = _unlike(bad, good)
        if why:
            raise BenchError(
                f"good and bad cannot be compared: {why}. If the benchmarks change with the commits, copy them out"
                " of the repository and name the copy after --"
            )

    def _step(self, good: Runs, bad: Runs) -> None:
        """Judge the commit that git has checked out."""
        commit = self._repository.commit("HEAD")
        try:
            tried = self._judge(commit, good, bad)
        except BuildFailure as failure:
            if not self._request.skip_build_failures:
                raise BenchError(f"{commit}: {failure}\n--skip-build-failures skips such commits") from None
            tried = Tried(commit, Runs(), Judgement.SKIPPED, "it cannot be installed")
        self._tried.append(tried)
        said = f"{tried.judgement}{' because ' + tried.why if tried.why else ''}"
        self._tell(f"{commit}: {len(tried.runs.values)} runs, {said}")
        word = "skip" if tried.judgement is Judgement.SKIPPED else str(tried.judgement)
        self._repository.bisect(word, commit.sha)

    def _judge(self, commit: Commit, good: Runs, bad: Runs) -> Tried:
        import numpy as np

        from curator_bench.verdict.sequential import Side, side_of

        ends = np.array(good.values), np.array(bad.values)
        looks = self._plan.looks()
        for look in looks:
            runs = self._measure(commit, look)
            if len(runs.values) < look:
                return Tried(commit, runs, Judgement.SKIPPED, runs.problem or "it was not measured")
            if why := _unlike(runs, good):
                return Tried(commit, runs, Judgement.SKIPPED, why)
            side: Side = side_of(np.array(runs.values[:look]), *ends, self._plan, is_last=look == looks[-1])
            if side is not Side.UNSURE:
                return Tried(commit, runs, Judgement(str(side)))
        return Tried(commit, runs, Judgement.SKIPPED, f"{looks[-1]} runs do not decide it", is_undecided=True)

    def _known(self, commit: Commit) -> Runs:
        return self._bench.runs(f"{self._session}-{commit.short}")

    def _measure(self, commit: Commit, target: int) -> Runs:
        """Measure a commit until it has `target` values, or too many attempts gave none."""
        runs, failures = self._known(commit), 0
        while len(runs.values) < target and failures < _TRIES:
            self._check_out(commit)
            self._tell(f"measuring {commit}: run {len(runs.values) + 1} to {target}")
            trouble = self._bench.measure(f"{self._session}-{commit.short}", target - len(runs.values))
            before, runs = runs, self._known(commit)
            if len(runs.values) == len(before.values):
                failures += _TRIES if runs.is_final else 1
                runs = runs if runs.problem and runs.origin else replace(runs, problem=_summary_of(runs, trouble))
        return runs

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


def _not_judged(good: tuple[Commit, Runs], bad: tuple[Commit, Runs]) -> tuple[Tried, ...]:
    """Return the two ends where nothing says that one is good and the other is bad, but the user."""
    return Tried(*good, None, "given as good"), Tried(*bad, None, "given as bad")


def _unlike(runs: Runs, good: Runs) -> str:
    return difference(runs.origin, good.origin) if runs.origin and good.origin else ""


def _summary_of(runs: Runs, trouble: str) -> str:
    return "\n".join(part for part in (runs.problem, trouble) if part) or "pytest ran nothing"
