"""Work that is divided among some ends at about the same time for all of them."""

from __future__ import annotations

import heapq
import itertools
import random

import pytest

from curator_bench.scheduling import divide, fewest_shares, longest_first, shortest_end

DISTRIBUTIONS = {
    "alike": lambda rng: rng.uniform(1, 100),
    "many short ones": lambda rng: rng.expovariate(1 / 60),
    "some very long ones": lambda rng: rng.lognormvariate(3, 1),
    "two kinds": lambda rng: rng.choice((20, 600)) * rng.uniform(0.9, 1.1),
}


def end(durations: list[float], shares: list[list[int]]) -> float:
    return max(sum(durations[place] for place in share) for share in shares)


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_200_durations_are_divided_within_a_fiftieth_of_the_best_possible(kind: str) -> None:
    rng = random.Random(kind)
    for shares in (2, 4, 8, 16):
        durations = [DISTRIBUTIONS[kind](rng) for _ in range(200)]
        divided = divide(durations, shares)
        assert sorted(itertools.chain(*divided)) == list(range(200))
        assert end(durations, divided) <= 1.02 * shortest_end(durations, shares)


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_a_queue_does_so_if_the_durations_are_wrong_by_a_fifth(kind: str) -> None:
    rng = random.Random(kind)
    for shares in (2, 4, 8, 16):
        true = [DISTRIBUTIONS[kind](rng) for _ in range(200)]
        free = [0.0] * shares
        for place in longest_first([duration * rng.uniform(0.8, 1.2) for duration in true]):
            heapq.heapreplace(free, free[0] + true[place])
        assert max(free) <= 1.02 * shortest_end(true, shares)


def test_few_durations_are_divided_as_well_as_possible() -> None:
    for durations in ([3, 3, 2, 2, 2], [5, 5, 4, 4, 3, 3, 3], [7, 1, 1], [1], [4, 4, 4, 4]):
        possible = itertools.product(range(2), repeat=len(durations))
        best = min(
            max(sum(each for each, at in zip(durations, choice, strict=True) if at == side) for side in range(2))
            for choice in possible
        )
        assert end([*map(float, durations)], divide([*map(float, durations)], 2)) == best


def test_shares_may_be_empty_and_durations_zero() -> None:
    assert divide([], 3) == [[], [], []]
    assert sorted(itertools.chain(*divide([0.0, 0.0, 1.0], 5))) == [0, 1, 2]


def test_as_few_shares_as_fit_below_a_limit() -> None:
    durations = [50.0, 20.0, 30.0, 60.0, 40.0, 200.0]
    shares = fewest_shares(durations, 100.0)
    assert shares[0] == [5]  # longer than the limit: it cannot share
    assert len(shares) == 3
    assert end(durations, shares[1:]) == 100.0
    assert fewest_shares([], 10.0) == []
