"""Tasks: how long one takes to come back, how many go through at once, what results that others wait for cost."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.ray_core, pytest.mark.ray_cluster(num_cpus=2, object_store_size=400_000_000)]


def echo(number: int) -> int:
    return number


def add(*numbers: int) -> int:
    return sum(numbers)


def test_task_round_trips(ray: Any, measured: Any, scale: float) -> None:
    """One after the other: each task waits for the answer to the one before."""
    task, count = ray.remote(echo), max(1, int(500 * scale))
    with measured(round_trips=count):
        answers = [ray.get(task.remote(number)) for number in range(count)]
    assert answers == list(range(count))


def test_task_throughput(ray: Any, measured: Any, scale: float) -> None:
    """All at once."""
    task, count = ray.remote(echo), max(1, int(3000 * scale))
    with measured(tasks=count):
        answers = ray.get([task.remote(number) for number in range(count)])
    assert answers == list(range(count))


def test_task_tree(ray: Any, measured: Any, scale: float) -> None:
    """Each task adds what eight others find: results go from worker to worker."""
    task, count = ray.remote(add), max(8, int(1000 * scale))
    with measured(numbers=count):
        waiting = [ray.put(number) for number in range(count)]
        while len(waiting) > 1:
            waiting = [task.remote(*waiting[start : start + 8]) for start in range(0, len(waiting), 8)]
        total = ray.get(waiting[0])
    assert total == count * (count - 1) // 2
