"""Git checkouts, found by their `.git`. One that another user may have planted is ignored."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path


def first_checkout(folders: Iterable[Path]) -> Path | None:
    """Return the first of the folders that is the top of a checkout."""
    return next((folder for folder in folders if is_checkout(folder)), None)


def is_checkout(folder: Path) -> bool:
    """True if there is a `.git` in the folder that is ours, the folder's owner's, or where not everybody can create
    files. In /tmp, anybody could claim the files of all others."""
    try:
        git, around = (folder / ".git").stat(), folder.stat()
    except OSError:
        return False
    return not around.st_mode & stat.S_IWOTH or git.st_uid in (os.geteuid(), around.st_uid)
