"""The folder of a dashboard: only files that differ are written, and files that are no longer part of it are removed.

Each file is renamed into place, so a page never shows half of one. What was written, and what the next build needs to
know of it, is in the marker file. While files are being written the marker says nothing, so a build that was ended
halfway is followed by one that writes everything.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from curator_bench.errors import BenchError
from curator_bench.files import locking
from curator_bench.files.folder_handles import NotUsable
from curator_bench.files.planted import refuse_planted_on_the_way

MARKER = ".curator-bench-site"
"""The file that marks a dashboard. A folder without it is not changed."""
SCHEMA_VERSION = 1
_UNFINISHED = ".unfinished"


def refuse_others(out: Path) -> None:
    """Raise BenchError if the folder holds something other than a dashboard."""
    _refuse_planted(out)
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER).exists():
        raise BenchError(f"{out} contains something other than a dashboard; name an empty or a new folder")
    if out.exists() and not out.is_dir():
        raise BenchError(f"{out} is a file; name a folder")


def _refuse_planted(out: Path) -> None:
    try:
        refuse_planted_on_the_way(out)
    except NotUsable as error:
        raise BenchError(f"{error.filename} {error.strerror}; name a folder of your own") from None


class SiteFolder:
    """A dashboard's folder while it is brought up to date. Use as a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written = 0
        """The number of files that were written."""
        self._digests: dict[str, str] = {}
        self._now: dict[str, str] = {}
        self._existing: set[str] = set()
        self.memory: Mapping[str, Any] = {}
        """The memory of the last build; empty for a new or an unfinished site."""

    def __enter__(self) -> SiteFolder:
        self.path.mkdir(parents=True, exist_ok=True)
        _refuse_planted(self.path)  # again: another user may have made it just now
        self._marker = (self.path / MARKER).open("a+b")
        locking.lock(self._marker)
        self._marker.seek(0)
        known = _document(self._marker.read())
        self._digests, self.memory = known.get("files", {}), known.get("memory", {})
        self._existing = {
            place + name
            for folder, _, names in os.walk(self.path)
            for place in [_below(folder, self.path)]
            for name in names
        }
        self._marker.truncate(0)
        return self

    def __exit__(self, *_: object) -> None:
        self._marker.close()

    def write(self, name: str, content: str | bytes) -> str:
        """Write a file unless it has this content already. Return a short text that changes with the content."""
        data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
        digest = hashlib.blake2b(data, digest_size=8).hexdigest()
        self._now[name] = digest
        if self._digests.get(name) != digest or name not in self._existing:
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            building = target.with_name(f"{target.name}{_UNFINISHED}")
            building.write_bytes(data)
            building.replace(target)
            self.written += 1
        return digest

    def keep(self, names: Iterable[str]) -> bool:
        """Keep these files as they are. Return False if one of them is not there."""
        found = {name: self._digests[name] for name in names if name in self._digests and name in self._existing}
        self._now |= found
        return len(found) == len(set(names))

    def finish(self, memory: Mapping[str, Any]) -> None:
        """Remove what is no longer part of the site, and note what was written."""
        for name in self._existing - self._now.keys() - {MARKER}:
            (self.path / name).unlink(missing_ok=True)
        for folder, _, _ in sorted(os.walk(self.path), reverse=True):
            if folder != str(self.path) and not any(os.scandir(folder)):
                os.rmdir(folder)
        document = {"schema_version": SCHEMA_VERSION, "files": dict(sorted(self._now.items())), "memory": memory}
        self._marker.write(json.dumps(document, separators=(",", ":")).encode("ascii"))
        self._marker.flush()


def _below(folder: str, site: Path) -> str:
    """Return what the names of the files of a folder begin with in the site."""
    place = Path(folder).relative_to(site).as_posix()
    return "" if place == "." else f"{place}/"


def _document(content: bytes) -> Mapping[str, Any]:
    """Return what the last build noted; empty if that is another version's, or not whole."""
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) and found.get("schema_version") == SCHEMA_VERSION else {}
