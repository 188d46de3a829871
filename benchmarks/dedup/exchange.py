"""Hands rows from those who read documents to those who group them: a file each, a record batch for each partition."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Columns = Mapping[str, npt.NDArray[np.generic]]
_SUFFIX = ".arrow"


def write_partitions(file: Path, columns: Columns, partition_of: npt.NDArray[np.integer], partitions: int) -> None:
    """Every row goes to the partition that stands for it in `partition_of`."""
    order = np.argsort(partition_of, kind="stable")
    bounds = np.searchsorted(partition_of[order], np.arange(partitions + 1))
    table = pa.table({name: pa.array(values[order]) for name, values in columns.items()})
    file.parent.mkdir(parents=True, exist_ok=True)
    with pa.ipc.new_file(file.with_name(file.name + _SUFFIX), table.schema) as writer:
        for begin, end in pairwise(bounds.tolist()):
            writer.write_batch(_one_batch(table.slice(begin, end - begin)))


def read_partition(folder: Path, partition: int) -> pa.Table:
    """The rows of one partition from the files of all."""
    return pa.Table.from_batches([_batch(file, partition) for file in sorted(folder.glob(f"*{_SUFFIX}"))])


def _batch(file: Path, partition: int) -> pa.RecordBatch:
    with pa.memory_map(str(file)) as source:
        return pa.ipc.open_file(source).get_batch(partition)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
