"""Files that another user may have planted: where everybody can create files, only the owner tells whose one is."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from curator_bench.files.folder_handles import NotUsable


def is_planted(path: Path) -> bool:
    """True if everybody can create files in the folder, and this one is neither ours nor the folder's owner's.

    Of a link its own owner counts. Raises OSError if there is no such file.
    """
    return _is_of_others(path, os.geteuid())


def make_own_folder_first(folder: Path) -> bool:
    """Make a folder where everybody can create some, before another user makes one of this name; true if it was made.

    A folder of ours, or of whoever owns the one around it, may be there already. Another user's folder or link is
    refused. No-op where only some users can create files.
    """
    try:
        if not folder.parent.stat().st_mode & stat.S_IWOTH:
            return False
        folder.mkdir()
    except FileExistsError:
        if belongs_to_another(folder):
            raise NotUsable(folder, f"belongs to another user (uid {folder.lstat().st_uid})") from None
        return False
    except FileNotFoundError:
        return False
    return True


def belongs_to_another(folder: Path) -> bool:
    """As `is_planted`, also on a file system that gives our files to another uid, such as NFS those of root."""
    return is_planted(folder) and _is_of_others(folder, _our_uid_in(folder.parent))


def _is_of_others(path: Path, own_uid: int) -> bool:
    found, around = path.lstat(), path.parent.stat()
    return bool(around.st_mode & stat.S_IWOTH) and found.st_uid not in (own_uid, around.st_uid)


def _our_uid_in(folder: Path) -> int:
    with tempfile.TemporaryDirectory(prefix=".", dir=folder) as made:
        return os.stat(made).st_uid
