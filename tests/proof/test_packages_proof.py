"""Proof of bisecting packages: whichever of 64 is 8 % slower is named, within a few environments, at a noise of 2 %.

The runs are drawn, the search and the judgement are real. Real installs are in tests/hunting/test_bisect_packages.py.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import cast

import pytest

from curator_bench.hunting.bench import Bench, Runs
from curator_bench.hunting.halving import Changes, Guilty, Judgement, search
from curator_bench.hunting.package_bisecting import steps_for
from curator_bench.hunting.trials import Trials
from curator_bench.verdict.direction import Better
from curator_bench.verdict.judgement import Word
from curator_bench.verdict.sequential import SequentialPlan

PACKAGES, NOISE, SLOWER = 64, 0.02, 0.08


@dataclass(frozen=True)
class DrawnEnvironment:
    """An environment in which some packages are new."""

    new: Changes

    @property
    def short(self) -> str:
        return "-".join(map(str, sorted(self.new)))


@dataclass
class DrawnBench:
    """Draws the runs of environments, which are slower if all guilty packages are new."""

    chance: random.Random
    guilty: Collection[int]
    drawn: dict[str, list[float]] = field(default_factory=dict)

    def runs(self, session: str) -> Runs:
        return Runs(tuple(self.drawn.get(session, ())))

    def measure(self, session: str, count: int) -> str:
        new = {int(word) for word in session.split("-")[1:] if word}
        level = 1 + SLOWER * bool(self.guilty and new.issuperset(self.guilty))
        self.drawn.setdefault(session, []).extend(level * self.chance.gauss(1, NOISE) for _ in range(count))
        return ""


@dataclass(frozen=True)
class Hunted:
    word: Word
    guilty: Guilty
    named_after: int
    """How many environments were measured, with both ends, until the first guilty package was named."""
    environments: int


def hunt(seed: int, guilty: Collection[int]) -> Hunted:
    bench = cast(Bench, DrawnBench(random.Random(f"packages {seed}"), guilty))
    plan = SequentialPlan(Better.LESS, 0.03, steps_for(PACKAGES))
    trials: Trials[DrawnEnvironment] = Trials(bench, lambda _: bench, plan, "s", lambda _: None)
    ends = trials.ends(DrawnEnvironment(Changes()), DrawnEnvironment(Changes(range(PACKAGES))))
    asked = list[Changes]()

    def judge(changes: Changes) -> Judgement:
        asked.append(changes)
        return trials.judge(DrawnEnvironment(changes), ends).judgement or Judgement.SKIPPED

    if ends.word is not Word.REGRESSION:
        return Hunted(ends.word, Guilty(), 2, 2)
    found = search([()] * PACKAGES, judge)
    alone = [changes for changes in asked if changes == Changes(found.changes[:1])]
    return Hunted(ends.word, found, 2 + len(asked) - len(alone), 2 + len(asked))


@pytest.fixture
def share(full: bool) -> int:
    """One in so many positions is tried."""
    return 1 if full else 8


def test_the_guilty_package_is_named_wherever_it_is(share: int) -> None:
    found = {place: hunt(place, [place]) for place in range(0, PACKAGES, share)}
    right = [one for place, one in found.items() if set(one.guilty.changes) == {place} and one.guilty.is_confirmed]
    print(len(right), "of", len(found), "named; most environments", max(one.environments for one in right))
    assert len(right) >= 0.98 * len(found)
    assert max(one.named_after for one in right) <= 8
    assert max(one.environments for one in right) <= 9


def test_two_that_are_slower_only_together_are_named_together(share: int) -> None:
    chance = random.Random(1)
    pairs = [chance.sample(range(PACKAGES), 2) for _ in range(200 // share)]
    found = [hunt(1000 + number, pair) for number, pair in enumerate(pairs)]
    right = [one for one, pair in zip(found, pairs, strict=True) if set(one.guilty.changes) == set(pair)]
    print(len(right), "of", len(found), "pairs named; most environments", max(one.environments for one in right))
    assert len(right) >= 0.98 * len(found)
    assert max(one.environments for one in right) <= 2 + 14


def test_where_no_package_is_slower_none_is_named(share: int) -> None:
    found = [hunt(2000 + number, []) for number in range(200 // share)]
    wrong = [one for one in found if one.word is Word.REGRESSION]
    print(len(wrong), "of", len(found), "called")
    assert len(wrong) <= 0.01 * len(found)
