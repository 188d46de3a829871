"""The packages of the current conda environment, read from its records without starting conda."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from curator_bench.masking import Mask

_CHANNEL_TOKEN = re.compile(r"/t/[^/]+/")


def explicit_text(environ: Mapping[str, str]) -> str | None:
    """List for `conda create --file` that recreates the environment; None outside conda."""
    prefix = environ.get("CONDA_PREFIX")
    records = list(_records(Path(prefix) / "conda-meta")) if prefix else []
    if not records:
        return None
    platforms = {str(record["subdir"]) for record in records if record.get("subdir")} - {"noarch"}
    lines = [f"# platform: {', '.join(sorted(platforms)) or 'noarch'}", "@EXPLICIT", *sorted(map(_line, records))]
    return "\n".join(lines) + "\n"


def _records(folder: Path) -> Iterator[Mapping[str, Any]]:
    for file in folder.glob("*.json"):
        try:
            record = json.loads(file.read_bytes())
        except (OSError, ValueError):  # skip an incomplete record
            continue
        if isinstance(record, dict) and record.get("url"):
            yield record


def _line(record: Mapping[str, Any]) -> str:
    """Line for a package: its URL without the login or token of a private channel."""
    address = _CHANNEL_TOKEN.sub("/", Mask().hide(str(record["url"])))
    return f"{address}#{record['md5']}" if record.get("md5") else address
