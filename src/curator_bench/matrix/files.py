"""Open a matrix file and check its limits. It is read in pieces, never as a whole."""

from __future__ import annotations

import codecs
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

MAX_BYTES = 64 * 1024 * 1024
NOT_A_MAPPING = "expected a mapping with `entries`"
EMPTY = f"the file is empty, {NOT_A_MAPPING}"
_PIECE = 256 * 1024


class Refused(Exception):
    """The file is not a matrix. `line` shows where (0: nowhere in particular), `problem` why."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line
        self.problem = problem


def open_text(path: Path) -> BinaryIO:
    """Open a file that is text and not too large. Raises Refused."""
    try:
        if not path.is_file():
            raise Refused(0, _why_no_file(path))
        if (size := path.stat().st_size) > MAX_BYTES:
            raise Refused(0, f"{size / 2**20:.0f} MB is too large for a matrix (at most {MAX_BYTES // 2**20} MB)")
        with path.open("rb") as file:
            _check_text(file)
        return path.open("rb")
    except OSError as error:
        raise Refused(0, f"cannot be read: {error.strerror or error}") from None


def _why_no_file(path: Path) -> str:
    if path.is_dir():
        return "is a directory, expected a file"
    if path.is_symlink() and not path.exists():
        return "is a link to a file that is not there"
    return "is not a regular file" if path.exists() else "there is no such file"


def _check_text(file: BinaryIO) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    line, empty = 1, True
    for piece in itertools.chain(_pieces(file), [b""]):
        held_back = decoder.getstate()[0]
        data = held_back + piece
        if (nul := data.find(b"\0")) >= 0:
            raise Refused(line + data.count(b"\n", 0, nul), "found binary data, expected YAML text in UTF-8")
        try:
            decoder.decode(piece, final=not piece)
        except UnicodeDecodeError as error:
            wrong = error.start
            found = f"found byte 0x{data[wrong]:02x}, expected YAML text in UTF-8"
            raise Refused(line + data.count(b"\n", 0, wrong), found) from None
        line += piece.count(b"\n")
        empty = empty and not piece.strip()
    if empty:
        raise Refused(0, EMPTY)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: file.read(_PIECE), b"")


def line_at(path: Path, position: int) -> int:
    """Line number of a byte position."""
    with path.open("rb") as file:
        lines = 1
        for start, piece in zip(itertools.count(0, _PIECE), _pieces(file), strict=False):
            if start + len(piece) > position:
                return lines + piece.count(b"\n", 0, position - start)
            lines += piece.count(b"\n")
        return lines


def text_of_line(path: Path, number: int) -> bytes:
    with path.open("rb") as file:
        return next(itertools.islice(file, number - 1, number), b"")
