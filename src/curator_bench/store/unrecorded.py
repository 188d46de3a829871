"""SESSION/unrecorded.jsonl: runs that could not be recorded, one JSON line each, for `curator-bench import`."""

from __future__ import annotations

from pathlib import Path

from curator_bench.files.codec import json_line, to_document
from curator_bench.files.locking import append_whole, locked
from curator_bench.store.records import StoredRun

FILE_NAME = "unrecorded.jsonl"
SCHEMA_VERSION = 1
_KIND = "run"


def keep(session_dir: Path, record: StoredRun) -> Path:
    """Append the run's line to the file on disk, whole or not at all. Raises OSError."""
    session_dir.mkdir(parents=True, exist_ok=True)
    path = session_dir / FILE_NAME
    with locked(path) as file:
        append_whole(file, line_of(record), sync=True)
    return path


def line_of(record: StoredRun) -> bytes:
    """The run as a line of the file."""
    return json_line({"schema_version": SCHEMA_VERSION, "kind": _KIND, **to_document(record)})
