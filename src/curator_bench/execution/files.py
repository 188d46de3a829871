"""JSON that others read while we run, or after we were killed, and the ends of logs.

A script may have put anything in the place of a file: see `safe_files`, also for `below`.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from curator_bench import safe_files

SCHEMA_VERSION = 1


def write_json(path: Path, document: dict[str, Any], *, below: Path | None = None) -> None:
    """Replaces the file with strict JSON that says which version of its schema it follows."""
    text = json.dumps(_versioned(document), indent=2, ensure_ascii=False) + "\n"
    safe_files.write_text(path, text, below=below)


def read_object(path: Path, *, below: Path | None = None) -> dict[str, Any]:
    """A JSON object in a file; empty where there is none, or none that can be read."""
    try:
        found = json.loads(safe_files.read_text(path, below=below))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def append_json_line(path: Path, document: dict[str, Any], *, below: Path | None = None) -> None:
    """Adds one line, in a single write, so that lines of several processes do not mix."""
    line = json.dumps(_versioned(document), ensure_ascii=False) + "\n"
    safe_files.append_bytes(path, line.encode("utf-8"), below=below)


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


def tail(path: Path, lines: int, most_bytes: int = 64 * 1024, *, below: Path | None = None) -> tuple[str, ...]:
    """The last lines of a log that may be huge, still growing, or not text; none of what is no file."""
    try:
        end = safe_files.read_end(path, most_bytes, below=below)
    except OSError:
        return ()
    return tuple(end.decode("utf-8", "replace").splitlines()[-lines:])
