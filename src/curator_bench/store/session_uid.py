"""The uid of a session. The first invocation that uses the directory writes a uid file there, the others read it.

So all who join find the same session. A name used again in another directory, or after the directory was removed (as on
CI machines that start empty), is a new session, also when databases are merged.
"""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from pathlib import Path

from curator_bench.errors import BenchError
from curator_bench.files import safe_files
from curator_bench.files.folder_handles import NotUsable
from curator_bench.store.records import new_uid

logger = logging.getLogger(__name__)

FILE_NAME = ".session-uid"
_LARGEST = 4096
_UID = re.compile(r"[0-9A-Za-z_-]{8,64}")


def session_uid(session_dir: Path) -> str:
    """Read the session's uid from its directory; create it on first use. Concurrent callers get the same uid."""
    file = session_dir / FILE_NAME
    try:
        return _read(file) or _leave(file)
    except OSError as error:
        logger.warning("other invocations cannot join the session: %s", error)
        return new_uid()


def give_uid(session_dir: Path, uid: str) -> None:
    """Give the session this uid, which it has on other machines, too. Raises BenchError if it has another one."""
    file = session_dir / FILE_NAME
    file.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        safe_files.create_exclusively(file, uid + "\n")
    if (found := _read(file)) != uid:
        raise BenchError(
            f"{session_dir} is another session (its uid is {found}, not {uid} of --bench-session-uid): name another"
            " one, or another folder for results"
        )


def _read(file: Path) -> str | None:
    with suppress(FileNotFoundError, NotUsable):
        text = safe_files.read_bytes(file, most_bytes=_LARGEST).decode("utf-8", "replace").strip()
        return text if _UID.fullmatch(text) else None
    return None


def _leave(file: Path) -> str:
    """Create the uid file and read it back. Only one process creates it, and it is complete when it appears."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        safe_files.create_exclusively(file, new_uid() + "\n")
    found = _read(file)
    if found is None:  # the file exists but is broken
        safe_files.write_text(file, new_uid() + "\n")
        found = _read(file)
    return found or new_uid()
