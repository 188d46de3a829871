"""Which session this is: the first invocation that uses its directory leaves a uid there, the others read it.

So everyone who joins finds the same session, and a name used again in another directory, or after the directory was
removed (as on CI machines that start empty each night), is another one, also when their databases are merged.
"""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from pathlib import Path

from curator_bench import safe_files
from curator_bench.store.records import new_uid

logger = logging.getLogger(__name__)

FILE_NAME = ".session-uid"
_LARGEST = 4096
_UID = re.compile(r"[0-9A-Za-z_-]{8,64}")


def session_uid(session_dir: Path) -> str:
    """The uid of the session in this directory, made on first use; however many ask at once, all get the same."""
    file = session_dir / FILE_NAME
    try:
        return _read(file) or _leave(file)
    except OSError as error:
        logger.warning("the session cannot be joined by others: %s", error)
        return new_uid()


def _read(file: Path) -> str | None:
    with suppress(FileNotFoundError, safe_files.NotUsable):
        text = safe_files.read_bytes(file, most_bytes=_LARGEST).decode("utf-8", "replace").strip()
        return text if _UID.fullmatch(text) else None
    return None


def _leave(file: Path) -> str:
    """The file is made by one only, and complete when it appears."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        safe_files.create_exclusively(file, new_uid() + "\n")
    found = _read(file)
    if found is None:  # it was there, and broken
        safe_files.write_text(file, new_uid() + "\n")
        found = _read(file)
    return found or new_uid()
