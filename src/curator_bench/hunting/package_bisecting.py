"""Bisecting packages: measure two environments, then others between them, until the guilty packages are known."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

from curator_bench.errors import BenchError
from curator_bench.hunting.bench import Bench, Runs
from curator_bench.hunting.causes_of_changes import Cause, Causes, search_causes
from curator_bench.hunting.halving import Changes, Guilty, Judgement
from curator_bench.hunting.mixed_environments import MixedEnvironments, Recipe
from curator_bench.hunting.package_lists import PackageList
from curator_bench.hunting.package_units import Unit, changes_between, units_of
from curator_bench.hunting.session_names import key_of
from curator_bench.hunting.trials import BudgetSpent, BuildFailure, Progress, Trials, Tried
from curator_bench.words import how_many

if TYPE_CHECKING:
    from curator_bench.hunting.end_profiles import ProfiledEnds, ProfileRequest
    from curator_bench.hunting.trials import Ends
    from curator_bench.verdict.intervals import Change
    from curator_bench.verdict.judgement import Word
    from curator_bench.verdict.sequential import SequentialPlan

_NAMED = 3
_SMALL = 0.05
"""Part of the difference between A and B that needs no cause of its own."""
TriedEnvironment: TypeAlias = Tried[Recipe]


@dataclass(frozen=True, slots=True)
class PackageCause:
    """Guilty packages, and what they do."""

    units: tuple[Unit, ...]
    """One, or several that are guilty only together."""
    companions: tuple[Unit, ...]
    """Packages that were changed with them because they need them."""
    change: Change | None
    """The change that they make, with no other package changed but those of the causes before; None if not measured."""
    share: float | None
    """Their part of the difference between A and B."""


@dataclass(frozen=True, slots=True)
class PackageOutcome:
    """The result. Without guilty packages, `difference` gives the reason, or there are only suspects."""

    difference: Word
    ends: Change
    units: tuple[Unit, ...]
    """All that differs, each in as few packages as can be changed at once."""
    tried: tuple[TriedEnvironment, ...]
    """In the order in which they were judged: the good end, the bad one, and those between."""
    new: tuple[frozenset[str], ...]
    """For each of them the packages that are as on the bad side."""
    causes: tuple[PackageCause, ...] = ()
    rest: Change | None = None
    """The change from the environment with all causes to B, unless that is B itself."""
    is_all: bool | None = None
    """True if the causes explain the whole difference; None if that is not known."""
    guilty: Guilty = field(default_factory=Guilty)
    """The search for a cause that ended without one that is certain."""
    is_budget_spent: bool = False
    profiled: ProfiledEnds | None = None
    """A and the environment with all causes by functions, if that was asked for."""

    @property
    def culprits(self) -> list[Unit]:
        """The packages of the causes; without any, those that are guilty with others."""
        named = [unit for cause in self.causes for unit in cause.units]
        return named or [self.units[number] for number in sorted(self.guilty.changes)]

    @property
    def suspects(self) -> list[Unit]:
        return [self.units[number] for number in self.guilty.suspects]


def package_key(bench: Bench, before: PackageList, after: PackageList) -> str:
    """Return a key that is equal for equal questions. It finds earlier measurements again."""
    return key_of(["packages", *before.parts(), "", *after.parts(), bench.entry, *bench.pytest_args])


def steps_for(units: int) -> int:
    """Return how many environments two causes take, at most; or two packages that are only slow together."""
    return 2 * math.ceil(math.log2(max(units, 2))) + 4


class PackageBisection:
    """Bisecting between two environments, which it builds first."""

    def __init__(
        self, environments: MixedEnvironments, bench: Bench, tell: Progress, deadline: float = math.inf
    ) -> None:
        self._environments, self._bench = environments, bench
        self._tell, self._deadline = tell, deadline
        self.units = self._units()
        self._names = self._names_of(range(len(self.units)))
        self._tried = list[TriedEnvironment]()
        self._new = list[frozenset[str]]()
        self._is_budget_spent = False

    def _units(self) -> list[Unit]:
        self._environments.build_ends()
        before, after = self._environments.packages
        changes = changes_between(before, after)
        if not changes:
            first, second = self._environments.ends
            raise BenchError(f"{first} and {second} have the same packages: there is nothing to bisect")
        return units_of(changes, before, after)

    def run(self, plan: SequentialPlan, session: str, profile: ProfileRequest | None = None) -> PackageOutcome:
        """Measure, judge, and profile. Names of its measuring sessions begin with `session`."""
        from curator_bench.verdict.judgement import Word

        trials = Trials(self._bench, self._prepare, plan, session, self._tell, "environment", deadline=self._deadline)
        good, bad = self._environments.ends
        ends = trials.ends(good, bad)
        self._tried, self._new = list(ends.tried(good, bad)), [frozenset(), self._names]
        if ends.word is not Word.REGRESSION:
            return self._outcome(ends)
        self._tell(f"good and bad differ by {ends.change.change:+.1%}; bisecting {self._counted()}")
        measuring = _Measuring(self, trials, ends)
        causes = search_causes([unit.needs for unit in self.units], measuring)
        found = self._with_causes(self._outcome(ends), causes, trials)
        if profile is None:
            return found
        guilty = self.recipe(causes.found[-1].after) if causes.found else bad
        return replace(found, profiled=trials.profiles((good, guilty), profile).profile(self._tell))

    def _outcome(self, ends: Ends[Recipe]) -> PackageOutcome:
        return PackageOutcome(ends.word, ends.change, tuple(self.units), tuple(self._tried), tuple(self._new))

    def _with_causes(self, found: PackageOutcome, causes: Causes, trials: Trials[Recipe]) -> PackageOutcome:
        whole = found.ends.after - found.ends.before
        last = self.recipe(causes.found[-1].after) if causes.found else None
        is_rest = last is not None and last.key != self._environments.ends[1].key
        return replace(
            found,
            causes=tuple(self._cause(one, trials, whole) for one in causes.found),
            rest=self._change(last, self._environments.ends[1], trials) if last is not None and is_rest else None,
            is_all=causes.is_all,
            tried=tuple(replace(one, runs=trials.known(one.of)) for one in found.tried),
            guilty=causes.unfinished,
            is_budget_spent=self._is_budget_spent,
        )

    def _cause(self, one: Cause, trials: Trials[Recipe], whole: float) -> PackageCause:
        change = self._change(self.recipe(one.before), self.recipe(one.after), trials)
        others = sorted(one.after - one.before - {*one.changes})
        units, companions = (tuple(self.units[number] for number in some) for some in (sorted(one.changes), others))
        share = None if change is None else (change.after - change.before) / whole
        return PackageCause(units, companions, change, share)

    def _change(self, before: Recipe, after: Recipe, trials: Trials[Recipe]) -> Change | None:
        from curator_bench.verdict.intervals import change_between
        from curator_bench.verdict.noise import BLOCK

        values = [trials.known(one).values[-BLOCK:] for one in (before, after)]
        return change_between(*values) if all(values) else None

    def recipe(self, changes: Changes) -> Recipe:
        """Return the environment with these changes."""
        if not changes or len(changes) == len(self.units):
            return self._environments.ends[bool(changes)]
        new = self._names_of(changes)
        return self._environments.mix(self._label(new), new)

    def _counted(self) -> str:
        packages = how_many(len(self._names), "package")
        groups = f" in {len(self.units)} groups, as some are only exchanged together"
        return f"{packages}{groups if len(self.units) < len(self._names) else ''}"

    def _names_of(self, numbers: range | Changes) -> frozenset[str]:
        return frozenset[str]().union(*(self.units[number].names for number in numbers))

    def judge(self, changes: Changes, trials: Trials[Recipe], ends: Ends[Recipe]) -> Judgement:
        """Build, measure and judge the environment with these changes."""
        recipe = self.recipe(changes)
        try:
            tried = trials.judge(recipe, ends)
        except BuildFailure as failure:
            tried = Tried(recipe, Runs(), Judgement.SKIPPED, f"it cannot be installed: {failure}")
        except BudgetSpent:
            self._is_budget_spent = True
            return Judgement.SKIPPED
        new = self._names_of(changes)
        if new not in self._new:
            self._tried.append(tried)
            self._new.append(new)
        said = f"{tried.judgement}{' because ' + tried.why if tried.why else ''}"
        self._tell(f"{recipe}: {how_many(len(tried.runs.values), 'run')}, {said}")
        return Judgement(tried.judgement or Judgement.SKIPPED)

    def compared(
        self, before: Changes, after: Changes, trials: Trials[Recipe], difference: float
    ) -> Ends[Recipe] | None:
        """Measure two environments until it is certain whether they differ; None if that cannot be told.

        A small part of the whole difference does not count.
        """
        first = self.recipe(before)
        try:
            level = abs(median(trials.known(first).values or [0.0]))
            return trials.compared(first, self.recipe(after), _SMALL * abs(difference) / level if level else 0.0)
        except BudgetSpent:
            self._is_budget_spent = True
        except BenchError as error:
            self._tell(str(error))
        return None

    def _label(self, new: frozenset[str]) -> str:
        if len(new) <= _NAMED:
            return f"only {', '.join(sorted(new))} as in B"
        return f"{len(new)} of {len(self._names)} as in B"

    def _prepare(self, recipe: Recipe) -> Bench:
        try:
            venv = self._environments.built(recipe)
        except BenchError as error:
            raise BuildFailure(str(error)) from error
        return replace(self._bench, python=venv.python, env=venv.variables)


@dataclass(frozen=True, slots=True)
class _Measuring:
    """Measures sets of packages in environments."""

    bisection: PackageBisection
    trials: Trials[Recipe]
    ends: Ends[Recipe]

    def judge(self, changes: Changes, base: Changes) -> Judgement:
        ends = self.ends
        if base:
            runs = self.trials.known(self.bisection.recipe(base))
            ends = replace(ends, good=runs)
        return self.bisection.judge(changes, self.trials, ends)

    def is_worse(self, before: Changes, after: Changes) -> bool | None:
        from curator_bench.verdict.judgement import Word

        whole = self.ends.change.after - self.ends.change.before
        ends = self.bisection.compared(before, after, self.trials, whole)
        return None if ends is None or ends.word is Word.INCONCLUSIVE else ends.word is Word.REGRESSION
