"""The top of a source tree: a git checkout, or an unpacked archive. One that another user planted is ignored."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from curator_bench.files.planted import is_planted

_BARE = ("HEAD", "objects", "refs")


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


def is_in_planted_checkout(directory: Path) -> bool:
    """True if git, asked in this folder, would use a repository that another user planted around it.

    Git also takes a folder for a repository without a work tree that has HEAD, objects and refs. It asks only who owns
    the folder, and everybody can create these in a shared one.
    """
    real = Path(os.path.realpath(directory))
    for folder in (real, *real.parents):
        if os.path.lexists(folder / ".git"):
            return not _is_ours(folder / ".git")
        if all(os.path.lexists(folder / name) for name in _BARE):
            return not all(_is_ours(folder / name) for name in _BARE)
    return False


def _holds(folder: Path, name: str) -> bool:
    """True if the folder has such a file that nobody has planted. In /tmp, anybody could claim the files of others."""
    return (folder / name).exists() and _is_ours(folder / name)


def _is_ours(file: Path) -> bool:
    try:
        return not is_planted(file)
    except OSError:
        return False
