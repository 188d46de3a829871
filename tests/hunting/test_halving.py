"""Halving finds what is guilty wherever it is, alone or together, and asks for few sets, all of them possible."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import pytest

from curator_bench.hunting.halving import Changes, Guilty, Judge, Judgement, search


@dataclass
class World:
    """Changes that make it bad if all of one of the sets in `guilty` are made."""

    guilty: Sequence[Collection[int]]
    needs: Sequence[Collection[int]]
    unjudgeable: Collection[Changes] = ()
    asked: list[Changes] = field(default_factory=list)

    def judge(self, changes: Changes) -> Judgement:
        assert all(changes.issuperset(self.needs[one]) for one in changes), "what is needed is there"
        assert changes not in self.asked, "nothing is asked twice"
        self.asked.append(changes)
        if changes in self.unjudgeable:
            return Judgement.SKIPPED
        return Judgement.BAD if any(changes.issuperset(one) for one in self.guilty) else Judgement.GOOD

    def search(self) -> Guilty:
        return search(self.needs, self.judge)


def free(count: int, *guilty: Collection[int]) -> World:
    return World(guilty, [()] * count)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 100])
def test_one_guilty_change_is_found_wherever_it_is(count: int) -> None:
    for guilty in range(count):
        world = free(count, [guilty])
        assert world.search() == Guilty((guilty,), Changes({guilty}), (), is_confirmed=True)
        naming = [changes for changes in world.asked if changes != {guilty}]
        assert len(naming) <= math.ceil(math.log2(count)), "one more confirms that it is guilty alone"
        assert len(world.asked) <= len(naming) + 1


def test_of_64_packages_one_is_named_by_8_environments_with_both_ends() -> None:
    for guilty in range(64):
        world = free(64, [guilty])
        world.search()
        assert 2 + len([changes for changes in world.asked if changes != {guilty}]) <= 8


def test_two_that_are_guilty_only_together_are_both_found() -> None:
    for pair in itertools.combinations(range(32), 2):
        world = free(32, pair)
        found = world.search()
        assert (set(found.changes), found.made, found.is_confirmed) == (set(pair), Changes(pair), True)
        assert len(world.asked) <= 2 * 5 + 2


def test_three_that_are_guilty_only_together_are_all_found() -> None:
    for some in itertools.combinations(range(12), 3):
        assert set(free(12, some).search().changes) == set(some)


def test_of_several_causes_one_is_found_with_nothing_that_has_no_part_in_it() -> None:
    chance = random.Random(1)
    for _ in range(300):
        causes = [Changes(chance.sample(range(40), chance.randint(1, 3))) for _ in range(chance.randint(2, 3))]
        found = free(40, *causes).search()
        assert found.made in causes
        assert found.is_confirmed


def random_needs(chance: random.Random, count: int) -> list[Changes]:
    """Return what each change needs, directly or not, of those before it."""
    needs = list[Changes]()
    for number in range(count):
        direct = [other for other in range(number) if chance.random() < 1.5 / count]
        needs.append(Changes(direct).union(*(needs[other] for other in direct)))
    return needs


def test_what_cannot_be_had_alone_is_found_with_what_it_needs() -> None:
    chance = random.Random(2)
    for _ in range(300):
        needs = random_needs(chance, 40)
        guilty = Changes(chance.sample(range(40), chance.randint(1, 2)))
        found = World([guilty], needs).search()
        assert guilty <= found.made == guilty.union(*(needs[one] for one in guilty))
        assert set(found.changes) <= guilty, "what is needed is not called guilty"


def test_what_cannot_be_judged_is_gone_round() -> None:
    world = World([[20]], [()] * 32, unjudgeable=[Changes(range(16)), Changes(range(24))])
    assert world.search().changes == (20,)


def test_where_nothing_between_can_be_judged_the_suspects_are_told_soon() -> None:
    whole = Changes(range(64))
    between = [
        Changes(some) for count in range(17, 32) for some in (range(count), [*range(16), *range(48 - count, 32)])
    ]
    world = World([[20]], [()] * 64, unjudgeable=between)
    found = world.search()
    assert (found.changes, found.is_confirmed) == ((), False)
    assert whole > set(found.suspects) > {20}
    assert len(world.asked) < 12


def test_a_change_that_needs_a_later_one_without_saying_so_hides_nothing() -> None:
    @dataclass
    class Undeclared(World):
        def judge(self, changes: Changes) -> Judgement:
            found = super().judge(changes)
            return Judgement.SKIPPED if 2 in changes and 60 not in changes else found

    world = Undeclared([[20]], [()] * 64)
    found = world.search()
    assert (found.changes, found.is_confirmed) == ((20,), True)
    assert len(world.asked) <= 14


def test_the_guilty_one_is_named_or_suspected_whatever_cannot_be_judged() -> None:
    chance = random.Random(3)
    named = 0
    for _ in range(300):
        world = World([[chance.randrange(32)]], random_needs(chance, 32))
        share = chance.choice((0.05, 0.2, 0.5))
        judge = world.judge

        def sometimes(changes: Changes, judge: Judge = judge, share: float = share) -> Judgement:
            found = judge(changes)
            return Judgement.SKIPPED if chance.random() < share else found

        found = search(world.needs, sometimes)
        (guilty,) = world.guilty[0]
        assert guilty in found.suspects or found.changes == (guilty,)
        named += found.is_confirmed
    assert named > 150


def test_a_guilty_change_that_cannot_be_judged_alone_is_not_confirmed() -> None:
    found = World([[5]], [()] * 12, unjudgeable=[Changes({5})]).search()
    assert (found.changes, found.suspects, found.is_confirmed) == ((5,), (), False)
