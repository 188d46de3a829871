"""Writing files that others read while we run, or after we were killed: complete or not there at all."""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from curator_bench.masking import Mask

SCHEMA_VERSION = 1
LONGEST_LINE = 1000
_LOG_LINES = 30
_MASKED_LINES = 500
"""More than are shown: a secret of several lines is known by all of them."""


def write_text(path: Path, text: str) -> None:
    """Replaces the file in one step."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        beside.write_text(text, "utf-8")
        os.replace(beside, path)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Replaces the file with strict JSON that says which version of its schema it follows."""
    write_text(path, json.dumps(_versioned(document), indent=2, ensure_ascii=False) + "\n")


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
    line = json.dumps(_versioned(document), ensure_ascii=False) + "\n"
    with path.open("ab", buffering=0) as file:
        file.write(line.encode("utf-8"))


def _versioned(document: dict[str, Any]) -> dict[str, Any]:
    return {"schema_version": SCHEMA_VERSION, **strict(document)}


def strict(value: Any) -> Any:
    """The value as strict JSON knows it: NaN and the infinities become the texts "NaN", "Infinity", "-Infinity"."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    return value


def tail(path: Path, lines: int, most_bytes: int = 64 * 1024) -> tuple[str, ...]:
    """The last whole lines of a log that may be huge, still growing, or not text."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - most_bytes))
            found = file.read(most_bytes).decode("utf-8", "replace").splitlines()
    except OSError:
        return ()
    if size > most_bytes:  # half a line may begin with half a secret
        found = found[1:] or [f"… (a line of more than {most_bytes:,} bytes)"]
    return tuple(found[-lines:])


def log_tail(path: Path, mask: Mask) -> tuple[str, ...]:
    """The last lines of a log, masked, for people."""
    lines = mask.hide_lines(tail(path, _MASKED_LINES))[-_LOG_LINES:]
    return tuple(line[:LONGEST_LINE] for line in lines)
