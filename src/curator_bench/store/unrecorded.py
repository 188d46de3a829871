"""SESSION/unrecorded.jsonl: runs the database could not take, one JSON line each, until `curator-bench import` does."""

from __future__ import annotations

from pathlib import Path

from curator_bench.codec import json_line, to_document
from curator_bench.locking import append_whole, locked
from curator_bench.store.records import StoredRun

FILE_NAME = "unrecorded.jsonl"
SCHEMA_VERSION = 1
_KIND = "run"


def keep(session_dir: Path, record: StoredRun) -> Path:
    """Adds the run to the file: all of its line, on disk, or none of it. Raises OSError."""
    session_dir.mkdir(parents=True, exist_ok=True)
    path = session_dir / FILE_NAME
    with locked(path) as file:
        append_whole(file, line_of(record), sync=True)
    return path


def line_of(record: StoredRun) -> bytes:
    """The run as such a file has it."""
    return json_line({"schema_version": SCHEMA_VERSION, "kind": _KIND, **to_document(record)})
