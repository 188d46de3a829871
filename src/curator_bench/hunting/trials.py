"""Measures what a bisection tries, as often as it takes to judge it by the two ends.

What is tried (commits, environments) is prepared by others. All runs are in the database: what is there counts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from curator_bench.errors import BenchError
from curator_bench.hunting.bench import Bench, Runs
from curator_bench.hunting.end_profiles import End, EndProfiles, ProfileRequest
from curator_bench.hunting.halving import Judgement
from curator_bench.verdict.comparable import difference

if TYPE_CHECKING:
    from curator_bench.verdict.intervals import Change
    from curator_bench.verdict.judgement import Word
    from curator_bench.verdict.sequential import SequentialPlan, Side

_TRIES = 2
"""One of them cannot be judged if this many pytests in a row give no value."""
Progress = Callable[[str], None]


class BuildFailure(BenchError):
    """The environment to be measured cannot be installed."""


class BudgetSpent(BenchError):
    """The time is up before the end is reached."""


class Tryable(Protocol):
    """A commit or an environment. Its text names it for people."""

    @property
    def short(self) -> str:
        """The end of its session's name."""


Of = TypeVar("Of", bound=Tryable)


@dataclass(frozen=True, slots=True)
class Tried(Generic[Of]):
    """One commit or environment with its measurements and judgement."""

    of: Of
    runs: Runs
    judgement: Judgement | None
    """None for the two ends if they do not differ as they should."""
    why: str = ""
    is_undecided: bool = False
    """True if more runs might decide it."""


@dataclass(frozen=True, slots=True)
class Ends(Generic[Of]):
    """The good and the bad end, measured until it is certain whether they differ."""

    word: Word
    change: Change
    good: Runs
    bad: Runs

    def tried(self, good: Of, bad: Of) -> tuple[Tried[Of], Tried[Of]]:
        """Return both. They are judged only if the bad one is worse: else the user alone says which is which."""
        if self.word == "regression":
            return Tried(good, self.good, Judgement.GOOD), Tried(bad, self.bad, Judgement.BAD)
        return Tried(good, self.good, None, "given as good"), Tried(bad, self.bad, None, "given as bad")


@dataclass(frozen=True, slots=True)
class Trials(Generic[Of]):
    """The measurements of one bisection. Names of its sessions begin with `session`."""

    bench: Bench
    """To read what was measured."""
    prepare: Callable[[Of], Bench]
    """Makes ready what is measured next, and returns what measures it."""
    plan: SequentialPlan
    session: str
    tell: Progress
    kind: str = "commit"
    unlike_advice: str = ""
    deadline: float = math.inf
    """No pytest is started after this time, on the monotonic clock."""

    def ends(self, good: Of, bad: Of) -> Ends[Of]:
        """Measure good and bad in turns until it is certain whether they differ.

        Taking turns spreads a drift of the machine over both.
        """
        import numpy as np

        from curator_bench.verdict.sequential import difference_of, is_settled

        for look in self.plan.end_looks():
            for one, target in ((good, (look + 1) // 2), (bad, look), (good, look)):
                self._measure_end(one, target)
            ends = self.known(good), self.known(bad)
            self._refuse_unlike(*ends)
            values = [np.array(runs.values[:look]) for runs in ends]
            found, change = difference_of(values[0], values[1], self.plan)
            self.tell(f"{look} runs each: bad is {change.change:+.1%}, {found}")
            if is_settled(found, change, self.plan):
                break
        return Ends(found, change, *ends)

    def compared(self, before: Of, after: Of, least: float) -> Ends[Of]:
        """Compare two by the runs that are known, if these are enough; else measure them in turns as well.

        Changes below `least` do not count here, nor those that never do.
        """
        import numpy as np

        from curator_bench.verdict.sequential import difference_of, is_settled

        plan = replace(self.plan, min_effect=max(least, self.plan.min_effect))
        runs = self.known(before), self.known(after)
        if min(len(one.values) for one in runs) >= plan.first:
            found, change = difference_of(np.array(runs[0].values), np.array(runs[1].values), plan)
            if is_settled(found, change, plan):
                return Ends(found, change, *runs)
        self.tell(f"comparing {before} and {after}")
        return replace(self, plan=plan).ends(before, after)

    def judge(self, one: Of, ends: Ends[Of]) -> Tried[Of]:
        """Measure one until it is certain which end it is like."""
        import numpy as np

        from curator_bench.verdict.sequential import Side, side_of

        values = np.array(ends.good.values), np.array(ends.bad.values)
        looks = self.plan.looks()
        for look in looks:
            runs = self.measure(one, look)
            if len(runs.values) < look:
                return Tried(one, runs, Judgement.SKIPPED, runs.problem or "it was not measured")
            if why := _unlike(runs, ends.good):
                return Tried(one, runs, Judgement.SKIPPED, why)
            side: Side = side_of(np.array(runs.values[:look]), *values, self.plan, is_last=look == looks[-1])
            if side is not Side.UNSURE:
                return Tried(one, runs, Judgement(str(side)))
        return Tried(one, runs, Judgement.SKIPPED, f"{looks[-1]} runs do not decide it", is_undecided=True)

    def known(self, one: Of) -> Runs:
        return self.bench.runs(self.session_of(one))

    def session_of(self, one: Of) -> str:
        return f"{self.session}-{one.short}"

    def measure(self, one: Of, target: int) -> Runs:
        """Measure until there are `target` values, or too many attempts gave none."""
        runs, failures = self.known(one), 0
        while len(runs.values) < target and failures < _TRIES:
            if time.monotonic() > self.deadline:
                raise BudgetSpent("the time of --budget is over")
            bench = self.prepare(one)
            self.tell(f"measuring {one}: run {len(runs.values) + 1} to {target}")
            trouble = bench.measure(self.session_of(one), target - len(runs.values))
            before, runs = runs, self.known(one)
            if len(runs.values) == len(before.values):
                failures += _TRIES if runs.is_final else 1
                runs = runs if runs.problem and runs.origin else replace(runs, problem=_summary_of(runs, trouble))
        return runs

    def profiles(self, two: tuple[Of, Of], request: ProfileRequest) -> EndProfiles:
        """Return the profiles of the entry at a good and a bad one."""
        good, bad = (End(str(one), self.session_of(one), partial(self.prepare, one)) for one in two)
        wanted = replace(request, deadline=self.deadline, limit=self.plan.min_effect)
        return EndProfiles(self.bench.entry, (good, bad), self.bench.database, wanted)

    def _measure_end(self, one: Of, target: int) -> None:
        try:
            runs = self.measure(one, target)
        except BuildFailure as failure:
            end = f"{one} is the good or the bad {self.kind}"
            raise BenchError(f"{end}, and cannot be installed: {failure}") from failure
        if len(runs.values) < target:
            raise BenchError(f"{one} is the good or the bad {self.kind}, and cannot be measured: {runs.problem}")

    def _refuse_unlike(self, good: Runs, bad: Runs) -> None:
        if why := _unlike(bad, good):
            raise BenchError(f"good and bad cannot be compared: {why}. {self.unlike_advice}".rstrip(". "))


def nearest_ends(tried: Sequence[Tried[Of]]) -> tuple[Of, Of]:
    """Return the last good one and the first bad one after it, of those that were tried, in their order."""
    bad = next(place for place, one in enumerate(tried) if one.judgement is Judgement.BAD)
    good = next(one for one in reversed(tried[:bad]) if one.judgement is Judgement.GOOD)
    return good.of, tried[bad].of


def _unlike(runs: Runs, good: Runs) -> str:
    return difference(runs.origin, good.origin) if runs.origin and good.origin else ""


def _summary_of(runs: Runs, trouble: str) -> str:
    return "\n".join(part for part in (runs.problem, trouble) if part) or "pytest ran nothing"
