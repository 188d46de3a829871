"""Reads and writes the files that documents and ids stand in: JSON lines or Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.json
import pyarrow.parquet as pq

FORMATS = ("jsonl", "parquet")
_LARGEST_BLOCK = 1 << 30


def document_files(folder: Path, form: str) -> list[Path]:
    files = sorted(folder.glob(f"*.{form}"))
    if not files:
        raise FileNotFoundError(f"there is no .{form} file in {folder}")
    return files


def read_columns(file: Path, columns: list[pa.Field]) -> pa.Table:
    """These columns of a file of documents, in the order of the file."""
    if file.suffix == ".parquet":
        table = pq.read_table(file, columns=[column.name for column in columns])
    else:
        table = parse_lines(file.read_bytes(), pa.schema(columns))
    missing = [column.name for column in columns if column.name not in table.column_names]
    missing += [name for name, values in zip(table.column_names, table.columns, strict=True) if values.null_count]
    if missing:
        raise ValueError(f"{file} has documents without {' and '.join(missing)}")
    return table.cast(pa.schema(columns))


def parse_lines(lines: bytes, schema: pa.Schema) -> pa.Table:
    """The columns of the schema from JSON lines, null where a line has none. Lines with nothing on them are no rows."""
    if not lines.strip():
        return schema.empty_table()
    return pyarrow.json.read_json(
        pa.BufferReader(lines),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=min(len(lines) + 1, _LARGEST_BLOCK)),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def ids_in(files: Sequence[Path], id_column: pa.Field) -> npt.NDArray[Any]:
    """The ids of all these documents, in the order they stand there."""
    return np.concatenate([read_columns(file, [id_column])[id_column.name].to_numpy() for file in files])


def read_ids(folder: Path, id_field: str, lowest: pa.Scalar, highest: pa.Scalar) -> pa.ChunkedArray:
    """The ids in Parquet files that lie in this range; what the files know of their row groups spares reading most."""
    in_range = (ds.field(id_field) >= lowest) & (ds.field(id_field) <= highest)
    return ds.dataset(folder, format="parquet").to_table(columns=[id_field], filter=in_range)[id_field]


def id_type(folder: Path, id_field: str) -> pa.DataType:
    return ds.dataset(folder, format="parquet").schema.field(id_field).type


def write_duplicates(file: Path, ids: pa.Array, kept: pa.Array) -> None:
    """Which documents are duplicates, and of which: `removal.py` takes the file as it is."""
    file.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"id": ids, "kept_id": kept})
    pq.write_table(table.sort_by("id"), file)
