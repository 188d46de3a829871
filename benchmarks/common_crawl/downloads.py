"""Downloads files over HTTP. What was interrupted, in this run or in an earlier one, goes on where it broke off.

Beside a file that is not whole (`NAME.part`) stands what identifies it on the server (`NAME.part.tag`), so that
parts of two different files are never put together.
"""

from __future__ import annotations

import re
import shutil
import time
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import OpenerDirector, ProxyHandler, Request, build_opener

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_WORTH_ANOTHER_TRY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)\Z")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_PIECE = 256 * 1024
_LONGEST_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a file is asked for, and how long each answer may keep silent."""

    tries: int = 5
    timeout_s: float = 60.0
    wait_s: float = 0.2
    """Before the second try; twice as long before each further one."""


@dataclass(frozen=True, slots=True)
class Download:
    """What came of one address. Without `path` it failed, and `problem` says why."""

    url: str
    path: Path | None = None
    received_bytes: int = 0
    resumed: int = 0
    """How many times it went on where it had broken off."""
    problem: str = ""


class Interrupted(Exception):
    """The answer ended too early, or was no use; another try may do better."""


class Refused(Exception):
    """The server's answer will be the same the next time."""


@dataclass(frozen=True, slots=True)
class _Part:
    """What is there of a file so far."""

    path: Path

    @property
    def tag_path(self) -> Path:
        return self.path.with_name(self.path.name + ".tag")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def tag(self) -> str:
        """What the server called the file; empty when it cannot be gone on with."""
        return self.tag_path.read_text("utf-8") if self.size and self.tag_path.exists() else ""

    def begin_anew(self, tag: str) -> None:
        self.path.write_bytes(b"")
        self.tag_path.write_text(tag, "utf-8")

    def finish(self, target: Path) -> None:
        self.path.replace(target)
        self.tag_path.unlink(missing_ok=True)


@dataclass(slots=True)
class _Tally:
    """What the tries at one file came to."""

    received_bytes: int = 0
    resumed: int = 0


def download(url: str, folder: Path, patience: Patience) -> Download:
    """A file that is there already is not asked for again."""
    target = folder / file_name(url)
    if target.exists():
        return Download(url, target)
    folder.mkdir(parents=True, exist_ok=True)
    part, tally = _Part(target.with_name(target.name + ".part")), _Tally()
    problem = _problem_after_all_tries(url, part, patience, tally)
    if not problem:
        part.finish(target)
    return Download(url, None if problem else target, tally.received_bytes, tally.resumed, problem)


def file_name(url: str) -> str:
    """The whole path is in it: files of different segments may have the same name."""
    return _UNSAFE.sub("_", unquote(urlsplit(url).path).strip("/").replace("/", "-"))


def _problem_after_all_tries(url: str, part: _Part, patience: Patience, tally: _Tally) -> str:
    """Empty as soon as the part is whole."""
    problem = ""
    for number in range(patience.tries):
        if number:
            time.sleep(min(_LONGEST_WAIT_S, patience.wait_s * 2 ** (number - 1)))
        try:
            _receive(url, part, patience.timeout_s, tally)
        except Refused as refusal:
            return str(refusal)
        except (Interrupted, HTTPException, OSError) as error:
            problem = str(error) if isinstance(error, Interrupted) else f"{type(error).__name__}: {error}"
        else:
            return ""
    return problem


def _receive(url: str, part: _Part, timeout_s: float, tally: _Tally) -> None:
    """Adds to the part what is missing of it."""
    request = Request(url)
    if tag := part.tag():
        request.add_header("Range", f"bytes={part.size}-")
        request.add_header("If-Range", tag)
    try:
        with _opener(url).open(request, timeout=timeout_s) as answer:
            _store(answer, part, tally)
    except HTTPError as error:
        _judge(error, part)


def _store(answer: Any, part: _Part, tally: _Tally) -> None:
    if answer.status == HTTPStatus.PARTIAL_CONTENT:
        size: int | None = _size_after(answer.headers, part.size)
        tally.resumed += 1
    else:
        part.begin_anew(_tag(answer.headers))
        size = _length(answer.headers)
    begin = part.size
    try:
        with part.path.open("ab") as file:
            shutil.copyfileobj(answer, file, _PIECE)
    finally:
        tally.received_bytes += part.size - begin
    if size is not None and part.size != size:
        raise Interrupted(f"{part.size:,} of {size:,} bytes came")


def _size_after(headers: HTTPMessage, begin: int) -> int:
    """The size of the whole file, which this answer is the rest of."""
    found = _CONTENT_RANGE.match(headers.get("Content-Range", ""))
    if found is None or int(found[1]) != begin:
        raise Interrupted(f"bytes from {begin:,} were asked for, {headers.get('Content-Range')!r} came")
    return int(found[2])


def _length(headers: HTTPMessage) -> int | None:
    length = headers.get("Content-Length", "")
    return int(length) if length.isdigit() else None


def _tag(headers: HTTPMessage) -> str:
    """Only a strong tag says that bytes are the same; a date to the second is better than none."""
    tag = headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified", "")


def _judge(error: HTTPError, part: _Part) -> None:
    """Returns where the error says that nothing is missing."""
    if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        if error.headers.get("Content-Range") == f"bytes */{part.size}":
            return
        part.path.unlink(missing_ok=True)
        raise Interrupted("there is more of it here than on the server") from None
    if error.code >= HTTPStatus.INTERNAL_SERVER_ERROR or error.code in _WORTH_ANOTHER_TRY:
        raise Interrupted(f"the server answered {error.code} {error.reason}") from None
    raise Refused(f"the server answered {error.code} {error.reason}") from None


def _opener(url: str) -> OpenerDirector:
    """A proxy cannot reach this machine's own loopback."""
    is_here = urlsplit(url).hostname in _LOOPBACK
    return build_opener(ProxyHandler({})) if is_here else build_opener()
