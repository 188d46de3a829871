"""Writing files that others read while we run, or after we were killed: complete or not there at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from curator_bench import safe_files
from curator_bench.codec import json_line, json_text

SCHEMA_VERSION = 1


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Replaces the file with strict JSON that says which version of its schema it follows."""
    safe_files.write_text(path, json_text({"schema_version": SCHEMA_VERSION, **document}))


def remove(path: Path) -> None:
    """A file, a link or a whole folder; nothing happens when there is none."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path)
    except OSError as error:  # which names a file in the folder, but not the folder
        raise OSError(error.errno, error.strerror, str(path)) from error


def append_json_line(path: Path, document: dict[str, Any]) -> None:
    """Adds one line, in a single write, so that lines of several processes do not mix."""
    with path.open("ab", buffering=0) as file:
        file.write(json_line({"schema_version": SCHEMA_VERSION, **document}))


def tail(path: Path, lines: int, most_bytes: int = 64 * 1024) -> tuple[str, ...]:
    """The last lines of a log that may be huge, still growing, or not text."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - most_bytes))
            return tuple(file.read(most_bytes).decode("utf-8", "replace").splitlines()[-lines:])
    except OSError:
        return ()
