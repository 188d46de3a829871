"""JSON that others read while we run, or after we were killed, and the ends of logs.

A script may have put anything in the place of a file: see `safe_files`, also for `below`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from curator_bench import safe_files
from curator_bench.codec import json_line, json_text
from curator_bench.masking import Mask

SCHEMA_VERSION = 1
_LONGEST_LINE = 1000
_LOG_LINES = 30
_MASKED_LINES = 500
"""More than are shown: a secret of several lines is known by all of them."""


def write_json(path: Path, document: dict[str, Any], *, below: Path | None = None) -> None:
    """Replaces the file with strict JSON that says which version of its schema it follows."""
    safe_files.write_text(path, json_text({"schema_version": SCHEMA_VERSION, **document}), below=below)


def read_object(path: Path, *, below: Path | None = None) -> dict[str, Any]:
    """A JSON object in a file; empty where there is none, or none that can be read."""
    try:
        found = json.loads(safe_files.read_text(path, below=below))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def append_json_line(path: Path, document: dict[str, Any], *, below: Path | None = None) -> None:
    """Adds one line, in a single write, so that lines of several processes do not mix."""
    safe_files.append_bytes(path, json_line({"schema_version": SCHEMA_VERSION, **document}), below=below)


def tail(path: Path, lines: int, most_bytes: int = 64 * 1024, *, below: Path | None = None) -> tuple[str, ...]:
    """The last whole lines of a log that may be huge, still growing, or not text; none of what is no file."""
    try:
        end = safe_files.read_end(path, most_bytes, below=below)
    except OSError:
        return ()
    found = end.decode("utf-8", "replace").splitlines()
    if len(end) == most_bytes:  # half a line may begin with half a secret
        found = found[1:] or [f"… (a line of more than {most_bytes:,} bytes)"]
    return tuple(found[-lines:])


def log_tail(path: Path, mask: Mask, *, below: Path | None = None) -> tuple[str, ...]:
    """The last lines of a log, masked, for people."""
    lines = mask.hide_lines(tail(path, _MASKED_LINES, below=below))[-_LOG_LINES:]
    return tuple(line[:_LONGEST_LINE] for line in lines)
