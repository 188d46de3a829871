"""Git checkouts, found by their `.git`. One that another user may have planted is ignored."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from curator_bench.files.planted import is_planted


def first_checkout(folders: Iterable[Path]) -> Path | None:
    """Return the first of the folders that is the top of a checkout."""
    return next((folder for folder in folders if is_checkout(folder)), None)


def is_checkout(folder: Path) -> bool:
    """True if there is a `.git` in the folder that nobody has planted. In /tmp, anybody could claim the files of all
    others."""
    try:
        return (folder / ".git").exists() and not is_planted(folder / ".git")
    except OSError:
        return False
