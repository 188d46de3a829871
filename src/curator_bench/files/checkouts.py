"""Git checkouts, found by their `.git`. One that another user may have planted is not believed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path


def first_source(folders: Iterable[Path]) -> Path | None:
    """Return the first of the folders that is the top of a checkout; else the first that holds a Python project, as
    an unpacked archive of its source does."""
    tried = list(folders)
    return first_checkout(tried) or next((folder for folder in tried if _holds(folder, "pyproject.toml")), None)


def first_checkout(folders: Iterable[Path]) -> Path | None:
    """Return the first of the folders that is the top of a checkout."""
    return next((folder for folder in folders if is_checkout(folder)), None)


def is_checkout(folder: Path) -> bool:
    return _holds(folder, ".git")


def _holds(folder: Path, name: str) -> bool:
    """True if the folder has such a file that is ours, the folder's owner's, or where not everybody can create files.

    In /tmp, anybody could claim the files of all others.
    """
    try:
        found, around = (folder / name).stat(), folder.stat()
    except OSError:
        return False
    return not around.st_mode & stat.S_IWOTH or found.st_uid in (os.geteuid(), around.st_uid)
