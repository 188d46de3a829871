"""Finds documents that are much alike: MinHash of their character n-grams, bands of it as keys, connected components.

It leaves the ids of all but the first of each component in OUTPUT_PATH/duplicates, as `removal.py` takes them.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import planted
import pyarrow as pa
from components import components
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
from lsh import band_keys, candidate_pairs, has_signature
from minhash import MinHasher, MinHashSettings

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Settings:
    """What makes documents alike, and where the documents' columns, the keys and the answer stand."""

    id_field: str
    text_field: str
    minhash: MinHashSettings
    bands: int
    keys: Path
    duplicates: Path
    partitions: int


@dataclass(frozen=True, slots=True)
class Candidates:
    """The pairs a partition has."""

    left: Ids
    right: Ids
    clock: StageClock


@dataclass(frozen=True, slots=True)
class Found:
    """Every document that is like another, and the first of its component."""

    ids: Ids
    firsts: Ids
    pairs: int
    read: Sequence[FileRead]
    clocks: Sequence[StageClock]

    @property
    def duplicates(self) -> Ids:
        return self.ids[np.not_equal(self.ids, self.firsts)]


def key_file(settings: Settings, file: Path) -> FileRead:
    clock = StageClock()
    with clock.stage("read") as measured:
        columns = [pa.field(settings.id_field, pa.int64()), pa.field(settings.text_field, pa.string())]
        documents = read_columns(file, columns)
        measured["num_items_processed"] = documents.num_rows
    with clock.stage("minhash"):
        texts = documents[settings.text_field].to_pylist()
        signatures = MinHasher(settings.minhash).signatures(texts)
    with clock.stage("hand_over"):
        rows = has_signature(signatures)
        keys = band_keys(signatures[rows], settings.bands)
        ids = np.repeat(documents[settings.id_field].to_numpy()[rows], settings.bands)
        partition_of = (keys.ravel() % np.uint64(settings.partitions)).astype(np.uint16)
        write_partitions(settings.keys / file.stem, {"key": keys.ravel(), "id": ids}, partition_of, settings.partitions)
    return FileRead(documents.num_rows, file.stat().st_size, clock)


def candidates_in(settings: Settings, partition: int) -> Candidates:
    clock = StageClock()
    with clock.stage("gather") as measured:
        rows = read_partition(settings.keys, partition)
        measured["num_items_processed"] = rows.num_rows
    with clock.stage("bands"):
        left, right = candidate_pairs(rows["key"].to_numpy(), rows["id"].to_numpy())
    return Candidates(left, right, clock)


def deduplicate(executor: Executor, settings: Settings, files: Sequence[Path]) -> Found:
    read = executor.run(partial(key_file, settings), files)
    candidates = executor.run(partial(candidates_in, settings), range(settings.partitions))
    shutil.rmtree(settings.keys)
    clock = StageClock()
    with clock.stage("components") as measured:
        left = np.concatenate([one.left for one in candidates])
        ids, firsts = components(left, np.concatenate([one.right for one in candidates]))
        measured["num_items_processed"] = len(left)
    with clock.stage("write"):
        is_duplicate = ids != firsts
        write_duplicates(settings.duplicates / "part-00000.parquet", ids[is_duplicate], firsts[is_duplicate])
    clocks = [*(one.clock for one in read), *(one.clock for one in candidates), clock]
    return Found(ids, firsts, len(left), read, clocks)


def counts(found: Found) -> Metrics:
    return {
        "is_success": True,
        "duplicates_found": len(found.duplicates),
        "duplicate_groups": len(np.unique(found.firsts)),
        "duplicate_share": len(found.duplicates) / max(1, sum(file.documents for file in found.read)),
        "candidate_pairs": found.pairs,
    }


def main() -> None:
    parser = parser_for_documents(__doc__)
    add_text_options(parser)
    parser.add_argument("--ngram", type=int, default=24, help="characters")
    parser.add_argument("--permutations", type=int, default=128)
    parser.add_argument("--bands", type=int, default=16, help="into how many the permutations are cut")
    parser.add_argument("--seed", type=int, default=1, help="of the permutations")
    options = parser.parse_args()
    output = empty_folder(options.output_path)
    settings = Settings(
        id_field=options.id_field,
        text_field=options.text_field,
        minhash=MinHashSettings(options.permutations, options.ngram, options.seed),
        bands=options.bands,
        keys=output / "keys",
        duplicates=output / "duplicates",
        partitions=options.partitions,
    )
    files = document_files(options.input_path.resolve(), options.format)
    with connected(options.executor) as executor:
        watch = Stopwatch()
        found = deduplicate(executor, settings, files)
        seconds = watch.seconds()
    metrics = {**counts(found), **speed(found.read, seconds)}
    if options.truth_path:
        metrics |= planted.compare_fuzzy(options.truth_path, found.ids, found.firsts)
    write_results(options, metrics, found.clocks)


if __name__ == "__main__":
    main()
