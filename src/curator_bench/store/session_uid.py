"""Which session this is: the first invocation that uses its directory leaves a uid there, the others read it.

So everyone who joins finds the same session, and a name used again in another directory, or after the directory was
removed (as on CI machines that start empty each night), is another one, also when their databases are merged.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from curator_bench.store.records import new_uid

logger = logging.getLogger(__name__)

FILE_NAME = ".session-uid"
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
    with suppress(FileNotFoundError):
        text = file.read_text(encoding="utf-8", errors="replace").strip()
        return text if _UID.fullmatch(text) else None
    return None


def _leave(file: Path) -> str:
    """A link is made by one only, and by then the file is complete."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{FILE_NAME}.{secrets.token_hex(4)}")
    try:
        beside.write_text(new_uid() + "\n", encoding="utf-8")
        with suppress(FileExistsError):
            os.link(beside, file)
        found = _read(file)
        if found is None:  # it was there, and broken
            os.replace(beside, file)
            found = _read(file)
    finally:
        beside.unlink(missing_ok=True)
    return found or new_uid()
