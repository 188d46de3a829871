"""An interpreter's packages without some of them: a folder of links, for environments that lie on top of the others."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path

_COMPILED = "__pycache__"
_PACKAGE = "__init__.py"


def link_all_but(site: Path, without: Iterable[Path], target: Path) -> None:
    """Fill `target` with links to everything in a folder of packages but these files.

    A folder that has some of them is made anew, with links to the rest, as packages may share a namespace. A folder
    whose `__init__.py` is among them goes with it: what a package has written into it does not make it importable.
    """
    hidden = {relative for file in without if (relative := _relative(file, site)) is not None}
    _link(site, target, hidden)


def _relative(file: Path, site: Path) -> Path | None:
    place = Path(os.path.normpath(file))
    return place.relative_to(site) if place.is_relative_to(site) else None


def _link(source: Path, target: Path, hidden: Collection[Path]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for entry in source.iterdir():
        name = Path(entry.name)
        inside = {one.relative_to(name) for one in hidden if one.parts[:1] == name.parts}
        if not inside:
            (target / entry.name).symlink_to(entry)
        elif entry.is_dir() and Path(_PACKAGE) not in inside and entry.name != _COMPILED:
            _link(entry, target / entry.name, inside)
            if not any((target / entry.name).iterdir()):
                (target / entry.name).rmdir()
