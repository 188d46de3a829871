"""Results of reading a file: runs, and mistakes with their places."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from curator_bench.errors import Mistake
from curator_bench.files import safe_files
from curator_bench.files.codec import parsed
from curator_bench.store.records import StoredRun
from curator_bench.values import Place

_BYTE_ORDER_MARK = "\ufeff"
_YEARS = range(1990, 2200)
_OF_OUR_AGE = f"expected a time in the years {_YEARS[0]} to {_YEARS[-1]}, in seconds since 1970 or ISO 8601"


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run, and its first line (0 if the file has no lines)."""

    record: StoredRun
    place: Place
    where: str = ""
    """Part of the file, if the place is not precise enough."""
    adds: bool = False
    """True if another file may hold further metrics of the same run."""
    recorded_as: datetime | None = None
    """A time within the run.

    A recorded run of the same session, name and attempt at that time is this run under another uid.
    """


Found: TypeAlias = FoundRun | Mistake


def stable_uid(*said: Any) -> str:
    """Uid derived from contents, so that importing a file twice changes nothing."""
    text = json.dumps(said, default=str, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def documents(path: Path) -> Iterator[tuple[Place, Mapping[str, Any]] | Mistake]:
    """Yield the objects of a file of JSON lines."""
    for number, line in enumerate(lines_of(path), 1):
        if not line.strip():
            continue
        place = Place(str(path), number)
        try:
            document = parsed(line.strip())
        except json.JSONDecodeError as error:
            yield Mistake(place, "", f"no JSON: {error.msg} (column {error.colno})")
            continue
        except ValueError as error:
            yield Mistake(place, "", f"no JSON: {error}")
            continue
        yield (place, document) if isinstance(document, dict) else Mistake(place, "", "expected an object {…}")


def document_of(path: Path) -> Mapping[str, Any] | Mistake:
    """Return the object that a file is."""
    try:
        found = parsed(whole_text(path))
    except json.JSONDecodeError as error:
        return Mistake(Place(str(path), error.lineno), "", f"no JSON: {error.msg}")
    except ValueError as error:
        return Mistake(Place(str(path), 0), "", f"no JSON: {error}")
    return found if isinstance(found, dict) else Mistake(Place(str(path), 0), "", "expected an object {…}")


def object_in(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object under a name; an empty one if something else is there."""
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def written_at(path: Path) -> datetime:
    """Return the time of a file, for formats that say none."""
    return datetime.fromtimestamp(named_file(path).stat().st_mtime, UTC)


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a file the user named, which must be a regular file."""
    for line in safe_files.read_lines(named_file(path)):
        yield line.decode("utf-8", "replace").removeprefix(_BYTE_ORDER_MARK)


def whole_text(path: Path) -> str:
    """Read a file the user named, which must be a regular file."""
    return safe_files.read_bytes(named_file(path)).decode("utf-8", "replace").removeprefix(_BYTE_ORDER_MARK)


def named_file(path: Path) -> Path:
    """Return the target of a link that the user named."""
    return Path(os.path.realpath(path))


def moment_of(said: object) -> datetime:
    """Parse a time: ISO 8601 (UTC by default) or seconds since 1970. Raises ValueError if it is implausible."""
    if isinstance(said, bool) or not isinstance(said, int | float | str):
        raise ValueError("expected a time: ISO 8601 or seconds since 1970")
    moment = datetime.fromisoformat(said) if isinstance(said, str) else _since_1970(said)
    if moment.year not in _YEARS:
        raise ValueError(_OF_OUR_AGE)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _since_1970(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        raise ValueError(_OF_OUR_AGE) from None
