"""Writes documents anew without those whose ids stand in a folder of Parquet files.

What is left of a file of JSON lines is what stood in it to the byte: lines are chosen, not written again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import planted
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from dedup_script import (
    FileRead,
    Metrics,
    StageClock,
    Stopwatch,
    empty_folder,
    parser_for_documents,
    speed,
    write_results,
)
from documents import document_files, id_type, parse_lines, read_ids
from executors import connected


@dataclass(frozen=True, slots=True)
class Settings:
    """Which documents to leave out, and where the others go."""

    id_field: str
    ids_to_remove: Path
    removal_id_field: str
    output: Path


@dataclass(frozen=True, slots=True)
class Removed(FileRead):
    """What was read, and how much of it was left out."""

    removed: int


def remove_from_file(settings: Settings, file: Path) -> Removed:
    remove = _remove_rows if file.suffix == ".parquet" else _remove_lines
    return remove(settings, file)


def _remove_rows(settings: Settings, file: Path) -> Removed:
    clock = StageClock()
    with clock.stage("read"):
        documents = pq.read_table(file)
    stays = _stays(settings, documents[settings.id_field], file, clock)
    with clock.stage("write"):
        kept = documents.filter(stays)
        pq.write_table(kept, settings.output / file.name)
    return Removed(documents.num_rows, file.stat().st_size, clock, documents.num_rows - kept.num_rows)


def _remove_lines(settings: Settings, file: Path) -> Removed:
    clock = StageClock()
    with clock.stage("read"):
        content = file.read_bytes()
        lines = [line for line in content.splitlines(keepends=True) if line.strip()]
        kind = id_type(settings.ids_to_remove, settings.removal_id_field)
        ids = parse_lines(content, pa.schema([(settings.id_field, kind)]))[settings.id_field]
        _check_lines(lines, len(ids), file)
    stays = _stays(settings, ids, file, clock)
    with clock.stage("write"), (settings.output / file.name).open("wb") as output:
        output.writelines(line for line, stay in zip(lines, stays.to_pylist(), strict=True) if stay)
    return Removed(len(ids), len(content), clock, len(ids) - pc.sum(stays, min_count=0).as_py())


def _check_lines(lines: list[bytes], rows: int, file: Path) -> None:
    """A parser forgives objects that share a line or span two; choosing lines by their number does not."""
    trimmed = (line.strip() for line in lines)
    if rows != len(lines) or not all(line.startswith(b"{") and line.endswith(b"}") for line in trimmed):
        raise ValueError(f"{file} is not one JSON object per line")


def _stays(settings: Settings, ids: pa.ChunkedArray, file: Path, clock: StageClock) -> pa.ChunkedArray:
    """For each document whether it stays."""
    if ids.null_count:
        raise ValueError(f"{file} has {ids.null_count} documents without {settings.id_field}")
    with clock.stage("read_ids") as measured:
        bounds = pc.min_max(ids)
        leave = read_ids(settings.ids_to_remove, settings.removal_id_field, bounds["min"], bounds["max"])
        measured["num_items_processed"] = len(leave)
    with clock.stage("choose") as measured:
        measured["num_items_processed"] = len(ids)
        return pc.invert(pc.is_in(ids, value_set=leave.cast(ids.type)))


def counts(removed: list[Removed]) -> Metrics:
    left_out = sum(file.removed for file in removed)
    documents = sum(file.documents for file in removed)
    return {
        "is_success": True,
        "num_removed": left_out,
        "num_output_documents": documents - left_out,
        "removed_share": left_out / max(1, documents),
    }


def main() -> None:
    parser = parser_for_documents(__doc__)
    parser.add_argument("--ids-to-remove-path", type=Path, required=True, help="a folder of Parquet files")
    parser.add_argument("--removal-id-field", default="id", help="the column of those files")
    options = parser.parse_args()
    output, ids_to_remove = empty_folder(options.output_path), options.ids_to_remove_path.resolve()
    settings = Settings(options.id_field, ids_to_remove, options.removal_id_field, output)
    files = document_files(options.input_path.resolve(), options.format)
    with connected(options.executor) as executor:
        watch = Stopwatch()
        removed = executor.run(partial(remove_from_file, settings), files)
        seconds = watch.seconds()
    metrics = {**counts(removed), **speed(removed, seconds)}
    leave = ds.dataset(ids_to_remove).to_table(columns=[options.removal_id_field])[options.removal_id_field]
    id_column = pa.field(options.id_field, leave.type)
    metrics |= planted.compare_removal(files, document_files(output, options.format), id_column, leave)
    write_results(options, metrics, [file.clock for file in removed])


if __name__ == "__main__":
    main()
