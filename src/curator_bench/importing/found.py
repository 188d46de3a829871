"""What the modules beside this one make of a file: runs, and mistakes with the place they stand in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from curator_bench.errors import Mistake
from curator_bench.store.records import StoredRun
from curator_bench.values import Place

_YEARS = range(1990, 2200)
_OF_OUR_AGE = f"expected a time of the years {_YEARS[0]} to {_YEARS[-1]}, in seconds since 1970 or ISO 8601"


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run, and the line it begins in (0 where there are no lines)."""

    record: StoredRun
    place: Place
    where: str = ""
    """In which part of it, where the place does not say all."""
    adds: bool = False
    """Another file may hold further metrics of the same run."""
    recorded_as: datetime | None = None
    """A moment at which the run was under way: one that was recorded of the same session, name, attempt and moment is
    this one, under another uid."""


Found: TypeAlias = FoundRun | Mistake


def stable_uid(*said: Any) -> str:
    """The same for the same, so that taking a file in twice changes nothing."""
    text = json.dumps(said, default=str, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def documents(path: Path) -> Iterator[tuple[Place, Mapping[str, Any]] | Mistake]:
    """The objects of a file of JSON lines."""
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            place = Place(str(path), number)
            try:
                document = json.loads(line.strip())
            except json.JSONDecodeError as error:
                yield Mistake(place, "", f"no JSON: {error.msg} (column {error.colno})")
                continue
            except (ValueError, RecursionError) as error:
                yield Mistake(place, "", f"no JSON: {error}")
                continue
            yield (place, document) if isinstance(document, dict) else Mistake(place, "", "expected an object {…}")


def moment_of(said: object) -> datetime:
    """ISO 8601, in UTC where it names no zone, or seconds since 1970. Raises ValueError for what cannot be meant."""
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
