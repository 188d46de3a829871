"""SESSION/undelivered/SINK.jsonl: the messages for a sink that are not yet delivered.

An invocation writes a line with itself and the session when it begins, a line for each message before it is delivered,
and another one after. A closed invocation with nothing left is removed, and a file without invocations is deleted. So
after a kill at any moment the file holds what `curator-bench resend` has to deliver. At worst, a message that was being
delivered at that moment is delivered twice.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from curator_bench.files import safe_files
from curator_bench.files.codec import json_line, parsed
from curator_bench.files.locking import append_whole, lock
from curator_bench.sinks.messages import Message, from_message, to_message
from curator_bench.values import Session

logger = logging.getLogger(__name__)

FOLDER = "undelivered"
SCHEMA_VERSION = 1
_FOR_US_ALONE = 0o600


@dataclass(slots=True)
class Undelivered:
    """The undelivered messages of one invocation. `source` is the argument of `Journal.begin`."""

    invocation: str
    session: Session
    source: Mapping[str, Any]
    messages: dict[str, Message] = field(default_factory=dict)
    """Messages by their id in the file, oldest first."""
    closed: bool = False


class Journal:
    """The lines of one invocation in the file of one sink. Its methods raise OSError."""

    def __init__(self, path: Path, invocation: str) -> None:
        self.path = path
        self._invocation = invocation
        self._count = 0

    def begin(self, session: Session, source: Mapping[str, Any]) -> None:
        """Write the first line. `source` is what is needed to make the sink again; it holds no secrets."""
        _make_folder(self.path.parent)
        head = {"schema_version": SCHEMA_VERSION, "what": "invocation", "source": dict(source)}
        self._append({**head, "session": to_message(session)})

    def keep(self, message: Message) -> str:
        """Write a message. Returns its id in the file."""
        self._count += 1
        key = f"{self._invocation}-{self._count}"
        self._append({"what": "told", "id": key, "told": to_message(message)})
        return key

    def delivered(self, key: str) -> None:
        self._append({"what": "delivered", "id": key})

    def close(self) -> None:
        """Mark the invocation as ended. Its undelivered messages stay in the file to be resent."""
        self._append({"what": "closed"})
        tidy(self.path)

    def _append(self, document: Mapping[str, Any]) -> None:
        line = json_line({**document, "invocation": self._invocation})
        with _locked(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as descriptor:
            append_whole(descriptor, line)


def read(path: Path) -> list[Undelivered]:
    """Return the undelivered messages by invocation. Broken lines are skipped with a warning."""
    found: dict[str, Undelivered] = {}
    for number, document in _documents(path):
        try:
            _take(found, document)
        except (KeyError, ValueError, TypeError) as error:
            logger.warning("%s:%s is skipped, because it is not a valid line: %r", path, number, error)
    return list(found.values())


def forget(path: Path, invocation: str) -> None:
    """Remove an invocation from the file, because everything in it was delivered."""
    _rewrite(path, lambda left: left.invocation != invocation)


def tidy(path: Path) -> None:
    """Remove delivered messages from the file. A file that becomes empty is deleted."""
    _rewrite(path, lambda left: bool(left.messages) or not left.closed)


def _rewrite(path: Path, keeps: Any) -> None:
    try:
        with _locked(path, os.O_RDWR):
            kept = [left for left in read(path) if keeps(left)]
            if not kept:
                path.unlink(missing_ok=True)
                return
            safe_files.write_bytes(path, b"".join(line for left in kept for line in _lines(left)), mode=_FOR_US_ALONE)
    except FileNotFoundError:
        return


def _make_folder(folder: Path) -> None:
    """Make the folder, readable by its owner only, because messages may be confidential."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(0o700)


def _lines(left: Undelivered) -> Iterator[bytes]:
    head = {"schema_version": SCHEMA_VERSION, "what": "invocation", "source": dict(left.source)}
    own = {"invocation": left.invocation}
    yield json_line({**head, "session": to_message(left.session), **own})
    for key, message in left.messages.items():
        yield json_line({"what": "told", "id": key, "told": to_message(message), **own})
    if left.closed:
        yield json_line({"what": "closed", **own})


def _documents(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(safe_files.read_lines(path), 1):
        with suppress(ValueError):
            document = parsed(line.decode("utf-8", "replace"))
            if isinstance(document, dict):
                yield number, document


def _take(found: dict[str, Undelivered], document: Mapping[str, Any]) -> None:
    what, invocation = document["what"], document["invocation"]
    if what == "invocation":
        session = from_message(document["session"])
        if not isinstance(session, Session):
            raise ValueError("expected a session")
        found[invocation] = Undelivered(invocation, session, document.get("source") or {})
        return
    if invocation not in found:
        raise ValueError(f"the invocation {invocation} has no beginning")
    left = found[invocation]
    if what == "told":
        left.messages[document["id"]] = from_message(document["told"])
    elif what == "delivered":
        left.messages.pop(document["id"], None)
    elif what == "closed":
        left.closed = True


@contextmanager
def _locked(path: Path, flags: int) -> Iterator[int]:
    """Open and lock the file. If it was replaced while waiting for the lock, open the new one."""
    while True:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, _FOR_US_ALONE)
        try:
            lock(descriptor)
            if _is_still(path, descriptor):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        now = path.stat()
    except FileNotFoundError:
        return False
    own = os.fstat(descriptor)
    return (now.st_dev, now.st_ino) == (own.st_dev, own.st_ino)
