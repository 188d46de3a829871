"""Writes what NeMo Curator's removal of duplicates needs beside documents: their ids, and which of these to remove.

Into OUT go id_generator.json, which gives every group of files a range of ids, and IDs/, a parquet file with the ids of
every tenth document. NeMo Curator knows a group by the paths of its files, smallest file first; a few small files are
one group.
"""

from __future__ import annotations

import argparse
import json
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

EVERY = 10
FIELD = "_curator_dedup_id"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=Path, required=True, help="folder of their JSON lines")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    files = sorted(options.documents.glob("*.jsonl"), key=lambda file: (file.stat().st_size, file))
    documents = sum(len(file.read_bytes().splitlines()) for file in files)
    options.out.mkdir(parents=True, exist_ok=True)
    ranges = {group_of(files): [0, documents - 1]}
    written = json.dumps({"next_id": documents, "batch_registry": ranges})
    (options.out / "id_generator.json").write_text(written)
    (options.out / "IDs").mkdir()
    pq.write_table(pa.table({FIELD: range(0, documents, EVERY)}), options.out / "IDs" / "ids.parquet")
    print(f"{documents} documents, {len(range(0, documents, EVERY))} to remove")


def group_of(files: list[Path]) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, ";".join(map(str, files))))


if __name__ == "__main__":
    main()
