"""Rows that change places: sorting, shuffling, grouping, joining, and sorting more than the object store holds."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

STORE_BYTES = 400_000_000
SMALL_STORE_BYTES = 100_000_000
BLOCKS = 8
PRIME = 1_000_003

pytestmark = [pytest.mark.ray_data, pytest.mark.ray_cluster(num_cpus=2, object_store_size=STORE_BYTES)]

Batch = dict[str, np.ndarray[Any, Any]]


def scattered(batch: Batch) -> Batch:
    """Keys in no order, the same ones each time."""
    numbers = batch["id"]
    return {"key": numbers * 7919 % PRIME, "group": numbers % 100, "value": numbers}


def with_payload(batch: Batch) -> Batch:
    """A kilobyte to each row."""
    rows = scattered(batch)
    return {**rows, "payload": np.zeros((len(rows["key"]), 256), dtype=np.float32)}


def table(data: Any, count: int) -> Any:
    return data.range(count, override_num_blocks=BLOCKS).map_batches(scattered).materialize()


def is_sorted(keys: list[int]) -> bool:
    return all(left <= right for left, right in pairwise(keys))


def test_sort(data: Any, measured: Any, scale: float) -> None:
    count = max(BLOCKS, int(500_000 * scale))
    rows = table(data, count)
    with measured(rows=count):
        ordered = rows.sort("key").materialize()
    assert ordered.count() == count
    assert is_sorted([row["key"] for row in ordered.limit(10_000).iter_rows()])


def test_random_shuffle(data: Any, measured: Any, scale: float) -> None:
    count = max(BLOCKS, int(500_000 * scale))
    rows = table(data, count)
    with measured(rows=count):
        shuffled = rows.random_shuffle(seed=1).materialize()
    assert shuffled.sum("value") == count * (count - 1) // 2
    assert not is_sorted([row["value"] for row in shuffled.limit(1000).iter_rows()])


def test_group_and_sum(data: Any, measured: Any, scale: float) -> None:
    count = max(100, int(500_000 * scale))
    rows = table(data, count)
    with measured(rows=count):
        sums = rows.groupby("group").sum("value").take_all()
    assert len(sums) == 100
    assert sum(row["sum(value)"] for row in sums) == count * (count - 1) // 2


def test_join(data: Any, measured: Any, scale: float) -> None:
    """Each row finds the one of its group; both tables are shuffled by it."""
    pytest.importorskip("polars", reason="Dataset.join of this Ray needs it: pip install polars")
    count = max(100, int(100_000 * scale))
    rows = table(data, count)
    groups = data.from_items([{"group": number, "weight": 2 * number} for number in range(100)]).materialize()
    with measured(rows=count):
        joined = rows.join(groups, join_type="inner", num_partitions=4, on=("group",)).materialize()
    assert joined.count() == count
    assert all(row["weight"] == 2 * row["group"] for row in joined.limit(1000).iter_rows())


def test_join_with_a_small_table(ray: Any, data: Any, measured: Any, scale: float) -> None:
    """The same, where one table is small enough to be handed to every task: nothing is shuffled."""
    count = max(100, int(500_000 * scale))
    rows, weights = table(data, count), ray.put(2 * np.arange(100))

    def with_weight(batch: Batch) -> Batch:
        return {**batch, "weight": ray.get(weights)[batch["group"]]}

    with measured(rows=count):
        joined = rows.map_batches(with_weight).materialize()
    assert joined.count() == count
    assert all(row["weight"] == 2 * row["group"] for row in joined.limit(1000).iter_rows())


@pytest.mark.ray_cluster(object_store_size=SMALL_STORE_BYTES)
def test_sort_more_than_memory_holds(data: Any, measured: Any, scale: float) -> None:
    """Twice what the object store holds: blocks go to disk and come back."""
    count = max(1, int(2 * scale)) * SMALL_STORE_BYTES // 1048
    rows = data.range(count, override_num_blocks=4 * BLOCKS).map_batches(with_payload)
    with measured(rows=count):
        ordered = rows.sort("key").materialize()
    assert ordered.count() == count
    assert is_sorted([row["key"] for row in ordered.limit(1000).iter_rows()])
