"""JSON files that others read while we run or after we were killed, and ends of logs.

A script may have replaced any file: see `safe_files`, also for `below`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from curator_bench.files import safe_files
from curator_bench.files.codec import json_line, json_text, parsed
from curator_bench.masking import Mask

SCHEMA_VERSION = 1
_LONGEST_LINE = 1000
_LOG_LINES = 30
_MASKED_LINES = 500
"""Lines to mask. More than are shown, because a secret of several lines is recognised only as a whole."""


def write_json(path: Path, document: dict[str, Any], *, below: Path | None = None) -> None:
    """Replace the file with strict JSON that contains the version of its schema."""
    safe_files.write_text(path, json_text({"schema_version": SCHEMA_VERSION, **document}), below=below)


def read_object(path: Path, *, below: Path | None = None, most_bytes: int = safe_files.MOST_BYTES) -> dict[str, Any]:
    """Read a JSON object; empty if the file is missing or unreadable."""
    try:
        found = parsed(safe_files.read_text(path, below=below, most_bytes=most_bytes))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def append_json_line(path: Path, document: dict[str, Any], *, below: Path | None = None) -> None:
    """Append one line in a single write, so that lines of several processes do not mix."""
    safe_files.append_bytes(path, json_line({"schema_version": SCHEMA_VERSION, **document}), below=below)


def tail(path: Path, lines: int, most_bytes: int = 64 * 1024, *, below: Path | None = None) -> tuple[str, ...]:
    """Read the last whole lines of a log that may be huge, growing, or not text; empty if it is not a file."""
    try:
        end = safe_files.read_end(path, most_bytes, below=below)
    except OSError:
        return ()
    found = end.decode("utf-8", "replace").splitlines()
    if len(end) == most_bytes:  # a cut line may begin inside a secret
        found = found[1:] or [f"… (a line of more than {most_bytes:,} bytes)"]
    return tuple(found[-lines:])


def log_tail(path: Path, mask: Mask, *, below: Path | None = None) -> tuple[str, ...]:
    """Read the last lines of a log, masked, for people."""
    lines = mask.hide_lines(tail(path, _MASKED_LINES, below=below))[-_LOG_LINES:]
    return tuple(line[:_LONGEST_LINE] for line in lines)
