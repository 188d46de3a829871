"""Parquet files of many columns, written and read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

COLUMNS = 1000
BLOCKS = 4

pytestmark = [pytest.mark.ray_data, pytest.mark.ray_cluster(num_cpus=2, object_store_size=400_000_000)]

Batch = dict[str, np.ndarray[Any, Any]]


def widened(batch: Batch) -> Batch:
    """A thousand columns made of one; the first stays what it was."""
    numbers = batch["id"].astype(np.float64)
    return {f"column_{position:04}": numbers + position for position in range(COLUMNS)}


def wide(data: Any, count: int) -> Any:
    return data.range(count, override_num_blocks=BLOCKS).map_batches(widened).materialize()


def cells(scale: float) -> tuple[int, int]:
    """Rows, and how many cells they make."""
    count = max(BLOCKS, int(10_000 * scale))
    return count, count * COLUMNS


def test_write_wide_data(data: Any, measured: Any, scratch_dir: Path, scale: float) -> None:
    count, total = cells(scale)
    rows = wide(data, count)
    with measured(cells=total):
        rows.write_parquet(str(scratch_dir / "wide"))
    written = data.read_parquet(str(scratch_dir / "wide"))
    assert written.count() == count
    assert len(written.schema().names) == COLUMNS


def test_read_wide_data(data: Any, measured: Any, scratch_dir: Path, scale: float) -> None:
    count, total = cells(scale)
    wide(data, count).write_parquet(str(scratch_dir / "wide"))
    with measured(cells=total):
        read = data.read_parquet(str(scratch_dir / "wide")).materialize()
    assert read.count() == count
    assert read.max("column_0999") == count - 1 + 999


def test_read_two_columns_of_wide_data(data: Any, measured: Any, scratch_dir: Path, scale: float) -> None:
    """What the other columns take should not matter."""
    count, _ = cells(scale)
    wide(data, count).write_parquet(str(scratch_dir / "wide"))
    with measured(rows=count):
        read = data.read_parquet(str(scratch_dir / "wide")).select_columns(["column_0000", "column_0500"])
        total = read.sum("column_0500")
    assert total == count * (count - 1) / 2 + 500 * count
