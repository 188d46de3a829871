"""The object store: small objects, large ones, one that many read, and more than it can hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

STORE_BYTES = 400_000_000
SMALL_STORE_BYTES = 100_000_000
MEGABYTE = 1_000_000

pytestmark = [pytest.mark.ray_core, pytest.mark.ray_cluster(num_cpus=2, object_store_size=STORE_BYTES)]


def filled(value: int, megabytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.full(megabytes * MEGABYTE, value, dtype=np.uint8)


def read_sum(array: np.ndarray[Any, np.dtype[np.uint8]]) -> int:
    return int(array.sum(dtype=np.int64))


def test_put_and_get_small_objects(ray: Any, measured: Any, scale: float) -> None:
    """A kilobyte each."""
    count = max(1, int(2000 * scale))
    with measured(objects=count):
        kept = [ray.put(number.to_bytes(4, "big") * 256) for number in range(count)]
        found = ray.get(kept)
    assert [int.from_bytes(one[:4], "big") for one in found] == list(range(count))


def test_put_and_get_large_objects(ray: Any, measured: Any, scale: float) -> None:
    """Ten megabytes each, gone before the next: what counts is copying them in."""
    count, array = max(1, int(50 * scale)), filled(7, megabytes=10)
    with measured(megabytes=10 * count):
        sizes = [ray.get(ray.put(array)).nbytes for _ in range(count)]
    assert sizes == [array.nbytes] * count


def test_read_one_object_in_many_tasks(ray: Any, measured: Any, scale: float) -> None:
    """No copy is made of it, however many read it."""
    task, count = ray.remote(read_sum), max(1, int(100 * scale))
    with measured(megabytes=20 * count):
        shared = ray.put(filled(3, megabytes=20))
        sums = ray.get([task.remote(shared) for _ in range(count)])
    assert sums == [3 * 20 * MEGABYTE] * count


@pytest.mark.ray_cluster(object_store_size=SMALL_STORE_BYTES)
def test_spilling(ray: Any, measured: Any, scale: float) -> None:
    """Three times what the store can hold goes in and comes back: two thirds of it by way of the disk."""
    count = max(3, int(3 * scale)) * SMALL_STORE_BYTES // (10 * MEGABYTE)
    with measured(megabytes=10 * count):
        kept = [ray.put(filled(number % 251, megabytes=10)) for number in range(count)]
        found = [int(ray.get(one)[-1]) for one in kept]
    assert found == [number % 251 for number in range(count)]
