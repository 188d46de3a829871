"""SESSION/unrecorded.jsonl: runs the database could not take, one JSON line each, until `curator-bench import` does."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path

from curator_bench import safe_files
from curator_bench.store.records import StoredRun, to_document

FILE_NAME = "unrecorded.jsonl"
SCHEMA_VERSION = 1
_KIND = "run"


def keep(session_dir: Path, record: StoredRun) -> Path:
    """Adds the run to the file: all of its line, on disk, or none of it. Raises OSError."""
    session_dir.mkdir(parents=True, exist_ok=True)
    path = session_dir / FILE_NAME
    _append(path, line_of(record))
    return path


def line_of(record: StoredRun) -> bytes:
    """The run as such a file has it."""
    document = {"schema_version": SCHEMA_VERSION, "kind": _KIND, **to_document(record)}
    return (json.dumps(document) + "\n").encode("utf-8")


def _append(path: Path, line: bytes) -> None:
    """Several processes may come at once, and a disk may be full after half a line."""
    with safe_files.open_lock(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = os.fstat(file.fileno()).st_size
        try:
            _write(file.fileno(), line)
        except OSError:
            with suppress(OSError):
                os.ftruncate(file.fileno(), before)
            raise


def _write(descriptor: int, line: bytes) -> None:
    while line:
        line = line[os.write(descriptor, line) :]
    os.fsync(descriptor)
