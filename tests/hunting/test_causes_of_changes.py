"""All causes of a difference are found, each with its own part of it, wherever they are."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from curator_bench.hunting.causes_of_changes import Cause, Causes, search_causes
from curator_bench.hunting.halving import Changes, Judgement

COUNT = 40


@dataclass
class World:
    """Sets of changes that each add some percent, judged like environments: by the middle between the two ends."""

    added: Mapping[Changes, float]
    needs: Sequence[Collection[int]] = ((),) * COUNT
    uncertain_below: float = 2.0
    asked: set[Changes] = field(default_factory=set)

    def level(self, changes: Changes) -> float:
        self.asked.add(changes)
        return sum(percent for some, percent in self.added.items() if changes.issuperset(some))

    def judge(self, changes: Changes, base: Changes) -> Judgement:
        low, level, high = self.level(base), self.level(changes), self.level(Changes(range(len(self.needs))))
        middle = (low + high) / 2
        is_bad = level > middle if abs(level - middle) > self.uncertain_below else level - low > self.uncertain_below
        return Judgement.BAD if is_bad else Judgement.GOOD

    def is_worse(self, before: Changes, after: Changes) -> bool | None:
        return self.level(after) - self.level(before) > self.uncertain_below


def named(found: Causes) -> dict[Changes, Changes]:
    return {Changes(one.changes): one.after - one.before for one in found.found}


@pytest.mark.parametrize("percents", [(20, 10), (10, 10), (10, 10, 10), (30, 5, 5), (5, 6, 7, 8)])
def test_each_of_several_packages_is_named_for_itself(percents: tuple[int, ...]) -> None:
    chance = random.Random(1)
    for _ in range(60):
        guilty = chance.sample(range(COUNT), len(percents))
        world = World({Changes({one}): percent for one, percent in zip(guilty, percents, strict=True)})
        found = search_causes(world.needs, world)
        assert named(found) == {Changes({one}): Changes({one}) for one in guilty}, guilty
        assert found.is_all
        assert len(world.asked) <= 9 * len(percents) + 4, "halving once a cause"


def test_what_is_guilty_only_together_stays_together_beside_one_that_is_alone() -> None:
    chance = random.Random(2)
    for _ in range(60):
        first, second, alone = chance.sample(range(COUNT), 3)
        world = World({Changes({first, second}): 15, Changes({alone}): 12})
        found = search_causes(world.needs, world)
        assert set(named(found)) == {Changes({first, second}), Changes({alone})}
        assert found.is_all


def test_what_is_needed_is_made_with_each_cause() -> None:
    needs = [(), (), (0,), (), (1,)]
    world = World({Changes({2}): 10, Changes({4}): 10}, needs)
    assert named(search_causes(needs, world)) == {Changes({2}): Changes({0, 2}), Changes({4}): Changes({1, 4})}


def test_a_rest_that_is_too_small_to_be_seen_is_no_cause() -> None:
    world = World({Changes({3}): 20, Changes({7}): 1})
    found = search_causes(world.needs, world)
    assert found == Causes((Cause((3,), after=Changes({3})),), is_all=True)


def test_what_cannot_be_told_is_said() -> None:
    class Stopped(World):
        def is_worse(self, before: Changes, after: Changes) -> bool | None:
            return None

    world = Stopped({Changes({3}): 20, Changes({7}): 10})
    found = search_causes(world.needs, world)
    assert (set(named(found)), found.is_all) == ({Changes({3})}, None)


def test_a_second_cause_that_cannot_be_judged_leaves_the_first_and_the_suspects() -> None:
    class Unbuildable(World):
        def judge(self, changes: Changes, base: Changes) -> Judgement:
            return Judgement.SKIPPED if base else super().judge(changes, base)

    world = Unbuildable({Changes({3}): 20, Changes({7}): 10})
    found = search_causes(world.needs, world)
    assert (set(named(found)), found.is_all) == ({Changes({3})}, False)
    assert 7 in found.unfinished.suspects


def test_what_only_helped_to_be_as_bad_as_all_is_no_cause() -> None:
    """Two make it bad by chance of the middle; one of them adds nothing measurable to the other."""
    world = World({Changes({3}): 8, Changes({5}): 1.5, Changes({9}): 8.5})
    assert set(named(search_causes(world.needs, world))) == {Changes({3}), Changes({9})}
