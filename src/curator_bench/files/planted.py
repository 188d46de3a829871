"""Files that another user may have planted: where everybody can create files, only the owner tells whose one is."""

from __future__ import annotations

import logging
import os
import pwd
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from curator_bench.files.folder_handles import NotUsable

TRUSTED_VARIABLE = "CURATOR_BENCH_TRUSTED_USERS"
"""Names or uids of other users, separated by commas, whose folders, files and Ray clusters may be used."""
_log = logging.getLogger(__name__)


def is_planted(path: Path) -> bool:
    """True if everybody can create files in the folder, and this one is neither ours nor the folder's owner's.

    Of a link its own owner counts. Raises OSError if there is no such file.
    """
    found, around = path.lstat(), path.parent.stat()
    return bool(around.st_mode & stat.S_IWOTH) and found.st_uid != around.st_uid and not is_trusted(found.st_uid)


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


def everybody_can_create_files_in(folder: Path) -> bool:
    with suppress(OSError):
        return bool(folder.stat().st_mode & stat.S_IWOTH)
    return False


def refuse_planted_on_the_way(path: Path) -> None:
    """Raise NotUsable if the path, or a folder around it, is planted: its owner could put anything in its place."""
    for place in dict.fromkeys((Path(os.path.abspath(path)), Path(os.path.realpath(path)))):
        for folder in [*reversed(place.parents), place]:
            with suppress(FileNotFoundError, NotADirectoryError):
                if belongs_to_another(folder):
                    raise NotUsable(folder, f"belongs to another user (uid {folder.lstat().st_uid})")


def open_unless_planted(path: Path) -> BinaryIO:
    """Open a file that the user named, for writing from its beginning. A link of the user's own is followed."""
    refuse_planted_on_the_way(path)
    if path.exists():
        return path.open("wb")
    return Path(os.path.realpath(path)).open("xb")  # not through a link that somebody made just now


def is_trusted(uid: int) -> bool:
    """True for our own uid, and for users that the user trusts."""
    return uid == os.geteuid() or uid in _named_uids(os.environ.get(TRUSTED_VARIABLE, ""))


def _named_uids(text: str) -> Iterator[int]:
    for name in filter(None, map(str.strip, text.split(","))):
        try:
            yield int(name) if name.isdigit() else pwd.getpwnam(name).pw_uid
        except KeyError:
            _log.warning("%s: there is no user %s here", TRUSTED_VARIABLE, name)


def belongs_to_another(folder: Path) -> bool:
    """As `is_planted`, also on a file system that gives our files to another uid, such as NFS those of root."""
    return is_planted(folder) and folder.lstat().st_uid != _our_uid_in(folder.parent)


def _our_uid_in(folder: Path) -> int:
    with tempfile.TemporaryDirectory(prefix=".", dir=folder) as made:
        return os.stat(made).st_uid
