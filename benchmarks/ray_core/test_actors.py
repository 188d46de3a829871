"""Actors: calls that wait, calls that do not, and what it takes to have a new one."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.ray_core, pytest.mark.ray_cluster(num_cpus=2, object_store_size=400_000_000)]


class Counter:
    def __init__(self) -> None:
        self.total = 0

    def add(self, number: int) -> int:
        self.total += number
        return self.total


def test_actor_round_trips(ray: Any, measured: Any, scale: float) -> None:
    """One after the other: each call waits for the answer to the one before."""
    counter, count = ray.remote(Counter).remote(), max(1, int(1000 * scale))
    ray.get(counter.add.remote(0))
    with measured(calls=count):
        totals = [ray.get(counter.add.remote(1)) for _ in range(count)]
    assert totals == list(range(1, count + 1))


def test_actor_throughput(ray: Any, measured: Any, scale: float) -> None:
    """Two actors, all calls at once; those of one caller are answered in their order."""
    counters, count = [ray.remote(Counter).remote() for _ in range(2)], max(1, int(2000 * scale))
    ray.get([counter.add.remote(0) for counter in counters])
    with measured(calls=2 * count):
        totals = ray.get([counter.add.remote(1) for _ in range(count) for counter in counters])
    assert totals == [number for number in range(1, count + 1) for _ in counters]


def test_actor_creation(ray: Any, measured: Any, scale: float) -> None:
    """Each is a process of its own, gone before the next two come."""
    actor, pairs = ray.remote(Counter), max(1, int(3 * scale))
    with measured(actors=2 * pairs):
        answers = [ray.get([actor.remote().add.remote(number) for _ in range(2)]) for number in range(pairs)]
    assert answers == [[number, number] for number in range(pairs)]
