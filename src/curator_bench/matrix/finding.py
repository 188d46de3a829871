"""The files in a folder that pytest would take for matrices."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

_SUFFIXES = (".yaml", ".yml", ".json")


def matrices_in(places: Iterable[Path], patterns: Sequence[str]) -> Iterator[Path]:
    """A folder that begins with a dot holds none. A file that is named is taken whatever it is called."""
    for place in places:
        if place.is_file():
            if place.suffix in _SUFFIXES:
                yield place
            continue
        for folder, folders, names in os.walk(place):
            folders[:] = [name for name in folders if not name.startswith(".")]
            yield from (Path(folder, name) for name in names if _is_like(name, patterns))


def _is_like(name: str, patterns: Sequence[str]) -> bool:
    return any(Path(name).match(pattern) for pattern in patterns)
