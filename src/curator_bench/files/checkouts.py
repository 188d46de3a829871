"""The top of a source tree: a git checkout, or an unpacked archive. One that another user planted is ignored."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from curator_bench.files.planted import is_planted


def first_source(folders: Iterable[Path]) -> Path | None:
    """Return the first of the folders that is the top of a checkout; else the first that holds a Python project, as an
    unpacked archive of its source does."""
    tried = list(folders)
    return first_checkout(tried) or next((folder for folder in tried if _holds(folder, "pyproject.toml")), None)


def first_checkout(folders: Iterable[Path]) -> Path | None:
    """Return the first of the folders that is the top of a checkout."""
    return next((folder for folder in folders if is_checkout(folder)), None)


def is_checkout(folder: Path) -> bool:
    return _holds(folder, ".git")


def _holds(folder: Path, name: str) -> bool:
    """True if the folder has such a file that nobody has planted. In /tmp, anybody could claim the files of others."""
    try:
        return (folder / name).exists() and not is_planted(folder / name)
    except OSError:
        return False
