"""The packages of the conda environment we run in, read from its records: no conda process is needed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from curator_bench.masking import Mask

_CHANNEL_TOKEN = re.compile(r"/t/[^/]+/")


def explicit_text(environ: Mapping[str, str]) -> str | None:
    """What `conda create --file` makes the same environment from; None outside of conda."""
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
        except (OSError, ValueError):  # a record that was cut short says nothing
            continue
        if isinstance(record, dict) and record.get("url"):
            yield record


def _line(record: Mapping[str, Any]) -> str:
    """The address of a package without the login or the token of a private channel."""
    address = _CHANNEL_TOKEN.sub("/", Mask().hide(str(record["url"])))
    return f"{address}#{record['md5']}" if record.get("md5") else address
