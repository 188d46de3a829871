"""Bisecting packages: measure two environments, then others between them, until the guilty packages are known."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from curator_bench.errors import BenchError
from curator_bench.hunting.bench import Bench, Runs
from curator_bench.hunting.halving import Changes, Guilty, Judgement, search
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
TriedEnvironment: TypeAlias = Tried[Recipe]


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
    guilty: Guilty = field(default_factory=Guilty)
    is_budget_spent: bool = False
    profiled: ProfiledEnds | None = None
    """A and the environment with only the culprits new by functions, if that was asked for."""

    @property
    def culprits(self) -> list[Unit]:
        return [self.units[number] for number in sorted(self.guilty.changes)]

    @property
    def suspects(self) -> list[Unit]:
        return [self.units[number] for number in self.guilty.suspects]

    @property
    def companions(self) -> list[Unit]:
        """Packages that were changed with the culprits because they need them."""
        return [self.units[number] for number in sorted(self.guilty.made - {*self.guilty.changes})]

    @property
    def confirmed(self) -> TriedEnvironment | None:
        """The environment in which nothing but the culprits and what they need is new; None if it was not judged."""
        if not self.guilty.is_confirmed:
            return None
        names = frozenset[str]().union(*(self.units[number].names for number in self.guilty.made))
        return next(one for one, new in zip(self.tried, self.new, strict=True) if new == names)


def package_key(bench: Bench, before: PackageList, after: PackageList) -> str:
    """Return a key that is equal for equal questions. It finds earlier measurements again."""
    return key_of(["packages", *before.parts(), "", *after.parts(), bench.entry, *bench.pytest_args])


def steps_for(units: int) -> int:
    """Return how many environments two guilty packages that are only slow together take, at most."""
    return 2 * math.ceil(math.log2(max(units, 2))) + 2


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
        guilty = search([unit.needs for unit in self.units], lambda changes: self._judged(changes, trials, ends))
        found = replace(self._outcome(ends), guilty=guilty, is_budget_spent=self._is_budget_spent)
        if profile is None:
            return found
        guilty_alone = found.confirmed.of if found.confirmed else bad
        return replace(found, profiled=trials.profiles((good, guilty_alone), profile).profile(self._tell))

    def _outcome(self, ends: Ends[Recipe]) -> PackageOutcome:
        return PackageOutcome(ends.word, ends.change, tuple(self.units), tuple(self._tried), tuple(self._new))

    def _counted(self) -> str:
        packages = how_many(len(self._names), "package")
        groups = f" in {len(self.units)} groups, as some are only exchanged together"
        return f"{packages}{groups if len(self.units) < len(self._names) else ''}"

    def _names_of(self, numbers: range | Changes) -> frozenset[str]:
        return frozenset[str]().union(*(self.units[number].names for number in numbers))

    def _judged(self, changes: Changes, trials: Trials[Recipe], ends: Ends[Recipe]) -> Judgement:
        """Build, measure and judge the environment with these changes."""
        new = self._names_of(changes)
        recipe = self._environments.mix(self._label(new), new)
        try:
            tried = trials.judge(recipe, ends)
        except BuildFailure as failure:
            tried = Tried(recipe, Runs(), Judgement.SKIPPED, f"it cannot be installed: {failure}")
        except BudgetSpent:
            self._is_budget_spent = True
            return Judgement.SKIPPED
        self._tried.append(tried)
        self._new.append(new)
        said = f"{tried.judgement}{' because ' + tried.why if tried.why else ''}"
        self._tell(f"{recipe}: {how_many(len(tried.runs.values), 'run')}, {said}")
        return Judgement(tried.judgement or Judgement.SKIPPED)

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
