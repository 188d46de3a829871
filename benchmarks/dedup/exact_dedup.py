"""Finds documents whose texts are the same to the letter: hash each, group the hashes, keep the document of lowest id.

It leaves the ids of the others in OUTPUT_PATH/duplicates, as `removal.py` takes them.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import planted
import pyarrow as pa
from dedup_script import (
    FileRead,
    Metrics,
    StageClock,
    Stopwatch,
    add_text_options,
    empty_folder,
    parser_for_documents,
    speed,
    write_results,
)
from documents import document_files, read_columns, write_duplicates
from exchange import read_partition, write_partitions
from executors import Executor, connected

Ids = npt.NDArray[np.int64]
DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the documents' columns, the hashes and the answer stand."""

    id_field: str
    text_field: str
    hashes: Path
    duplicates: Path
    partitions: int


@dataclass(frozen=True, slots=True)
class Grouped:
    """How many duplicates a partition has."""

    duplicates: int
    groups: int
    clock: StageClock


def hash_file(settings: Settings, file: Path) -> FileRead:
    clock = StageClock()
    with clock.stage("read") as measured:
        columns = [pa.field(settings.id_field, pa.int64()), pa.field(settings.text_field, pa.string())]
        documents = read_columns(file, columns)
        measured["num_items_processed"] = documents.num_rows
    with clock.stage("hash"):
        ids, texts = (documents[name].combine_chunks() for name in documents.column_names)
        digests = digests_of(texts)
    with clock.stage("hand_over"):
        columns_out = {"high": digests[:, 0], "low": digests[:, 1], "id": ids.to_numpy()}
        partition_of = (digests[:, 0] % np.uint64(settings.partitions)).astype(np.uint16)
        write_partitions(settings.hashes / file.stem, columns_out, partition_of, settings.partitions)
    return FileRead(documents.num_rows, file.stat().st_size, clock)


def digests_of(texts: pa.Array) -> npt.NDArray[np.uint64]:
    """Two halves of a hash for each text."""
    encoded = texts.cast(pa.binary()).to_pylist()
    digests = [hashlib.blake2b(text, digest_size=DIGEST_BYTES).digest() for text in encoded]
    return np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2)


def group_partition(settings: Settings, partition: int) -> Grouped:
    clock = StageClock()
    with clock.stage("gather") as measured:
        rows = read_partition(settings.hashes, partition)
        measured["num_items_processed"] = rows.num_rows
    with clock.stage("group"):
        ids, kept = duplicates_among(*(rows[name].to_numpy() for name in ("high", "low", "id")))
    with clock.stage("write"):
        write_duplicates(settings.duplicates / f"part-{partition:05d}.parquet", ids, kept)
    return Grouped(len(ids), len(np.unique(kept)), clock)


def duplicates_among(high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64], ids: Ids) -> tuple[Ids, Ids]:
    """The ids of all but the first document of each group, and beside each the id of that first."""
    order = np.lexsort((ids, low, high))
    high, low, ids = high[order], low[order], ids[order]
    is_first = np.ones(len(ids), np.bool_)
    is_first[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    first = ids[np.maximum.accumulate(np.where(is_first, np.arange(len(ids)), 0))]
    return ids[~is_first], first[~is_first]


def deduplicate(executor: Executor, settings: Settings, files: Sequence[Path]) -> tuple[list[FileRead], list[Grouped]]:
    read = executor.run(partial(hash_file, settings), files)
    grouped = executor.run(partial(group_partition, settings), range(settings.partitions))
    shutil.rmtree(settings.hashes)
    return read, grouped


def counts(read: Sequence[FileRead], grouped: Sequence[Grouped]) -> Metrics:
    duplicates = sum(one.duplicates for one in grouped)
    documents = sum(one.documents for one in read)
    return {
        "is_success": True,
        "duplicates_found": duplicates,
        "duplicate_groups": sum(one.groups for one in grouped),
        "duplicate_share": duplicates / max(1, documents),
    }


def main() -> None:
    parser = parser_for_documents(__doc__)
    add_text_options(parser)
    options = parser.parse_args()
    output = empty_folder(options.output_path)
    settings = Settings(
        options.id_field, options.text_field, output / "hashes", output / "duplicates", options.partitions
    )
    files = document_files(options.input_path.resolve(), options.format)
    with connected(options.executor) as executor:
        watch = Stopwatch()
        read, grouped = deduplicate(executor, settings, files)
        seconds = watch.seconds()
    metrics = {**counts(read, grouped), **speed(read, seconds)}
    if options.truth_path:
        metrics |= planted.compare_exact(options.truth_path, settings.duplicates)
    write_results(options, metrics, [*(one.clock for one in read), *(one.clock for one in grouped)])


if __name__ == "__main__":
    main()
