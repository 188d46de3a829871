"""Reads WARC files as crawls publish them: a gzip member for each record. What is broken is told, and reading goes on.

The file is mapped, not loaded; at any moment one record is in memory.
"""

from __future__ import annotations

import mmap
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MEBIBYTE = 2**20
_GZIP = b"\x1f\x8b\x08"
_GZIP_WINDOW = 31
_VERSION = b"WARC/"
_PIECE = 64 * 1024
_BEGINNING = 4096
_END_OF_HEADER = re.compile(rb"\r?\n\r?\n")
_BETWEEN_RECORDS = b"\r\n"
_LONGEST_HEADER = 64 * 1024


@dataclass(frozen=True, slots=True)
class Record:
    """A whole record. The names of its header's fields are in lower case."""

    offset: int
    header: dict[str, str]
    content: bytes

    @property
    def kind(self) -> str:
        return self.header.get("warc-type", "")


@dataclass(frozen=True, slots=True)
class Broken:
    """Where in the file a record begins that cannot be read, and why."""

    offset: int
    reason: str


class NotWhole(Exception):
    """Why a gzip member, or what is in it, cannot be read."""


def read_warc(path: Path, *, most_bytes: int = 64 * MEBIBYTE) -> Iterator[Record | Broken]:
    """Every record of a file. One of more than `most_bytes` is taken for broken."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield from _records_of(data, most_bytes)


def _records_of(data: mmap.mmap, most_bytes: int) -> Iterator[Record | Broken]:
    offset = 0
    while offset < len(data):
        begin = offset
        try:
            content, offset = _decompressed(data, begin, most_bytes)
            yield from _records_in(content, begin)
        except NotWhole as reason:
            yield Broken(begin, str(reason))
            offset = offset if offset > begin else _next_record(data, begin + 1)


def _decompressed(data: mmap.mmap, begin: int, most_bytes: int) -> tuple[bytes, int]:
    """What a member holds, and where it ends."""
    member = zlib.decompressobj(_GZIP_WINDOW)
    content, position = bytearray(), begin
    while not member.eof:
        piece = member.unconsumed_tail or data[position : position + _PIECE]
        if not piece:
            raise NotWhole("the file ends within it")
        position += 0 if member.unconsumed_tail else len(piece)
        try:
            content += member.decompress(piece, most_bytes + 1 - len(content))
        except zlib.error as error:
            raise NotWhole(f"not to be decompressed: {error}") from None
        if len(content) > most_bytes:
            raise NotWhole(f"larger than {most_bytes:,} bytes")
    return bytes(content), position - len(member.unused_data)


def _next_record(data: mmap.mmap, position: int) -> int:
    """Where the next member begins that looks like a record; the end of the file where there is none.

    A broken member may hold the three bytes that begin one by chance, so what they begin is looked at.
    """
    while (position := data.find(_GZIP, position)) >= 0:
        try:
            if zlib.decompressobj(_GZIP_WINDOW).decompress(data[position : position + _BEGINNING], 5) == _VERSION:
                return position
        except zlib.error:
            pass
        position += 1
    return len(data)


def _records_in(content: bytes, offset: int) -> Iterator[Record]:
    """The records in a member: one, though some writers put several there."""
    position = 0
    while position < len(content):
        header, begin = _header_at(content, position)
        end = begin + _content_length(header)
        if end > len(content):
            raise NotWhole(f"{end - len(content):,} bytes shorter than its header says")
        yield Record(offset, header, content[begin:end])
        position = end
        while content.startswith(_BETWEEN_RECORDS, position):
            position += len(_BETWEEN_RECORDS)


def _header_at(content: bytes, position: int) -> tuple[dict[str, str], int]:
    """The fields of a header, and where it ends."""
    if not content.startswith(_VERSION, position):
        raise NotWhole("does not begin with WARC/")
    end = _END_OF_HEADER.search(content, position, position + _LONGEST_HEADER)
    if end is None:
        raise NotWhole("its header has no end")
    lines = content[position : end.start()].decode("utf-8", "replace").splitlines()
    return header_fields(lines[1:]), end.end()


def header_fields(lines: list[str]) -> dict[str, str]:
    """Names in lower case and values; a line that begins with a blank goes on with the one before."""
    fields: dict[str, str] = {}
    name = ""
    for line in lines:
        if line[:1] in (" ", "\t") and name:
            fields[name] += " " + line.strip()
        elif ":" in line:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()
    return fields


def _content_length(header: dict[str, str]) -> int:
    length = header.get("content-length", "")
    if not (length.isascii() and length.isdigit()):
        raise NotWhole(f"its length is {length!r}" if length else "its header says no length")
    return int(length)
