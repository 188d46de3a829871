"""The answer of a web server as a crawler kept it: its status, its header, and its body without transfer encodings."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

from warc import NotWhole, header_fields

_STATUS_LINE = re.compile(r"HTTP/\d(?:\.\d)? +(\d{3})")
_END_OF_HEADER = re.compile(rb"\r?\n\r?\n")
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_RAW_DEFLATE = -15
_LONGEST_HEADER = 256 * 1024


@dataclass(frozen=True, slots=True)
class Response:
    """The names of the header's fields are in lower case."""

    status: int
    header: dict[str, str]
    body: bytes

    @property
    def is_html(self) -> bool:
        kind = self.header.get("content-type", "").partition(";")[0].strip().lower()
        return kind in ("text/html", "application/xhtml+xml")


def parse_response(message: bytes, *, most_bytes: int) -> Response:
    """NotWhole says why it cannot be read. A body of more than `most_bytes` ends there, as crawlers do it."""
    end = _END_OF_HEADER.search(message, 0, _LONGEST_HEADER)
    if end is None:
        raise NotWhole("the header of its answer has no end")
    first, *others = message[: end.start()].decode("iso-8859-1").split("\n")
    status = _STATUS_LINE.match(first)
    if status is None:
        raise NotWhole(f"its answer begins with {first[:40]!r}")
    header = header_fields([line.rstrip("\r") for line in others])
    body = message[end.end() :]
    if "chunked" in header.get("transfer-encoding", "").lower() and _looks_chunked(body):
        body = _joined(body)
    return Response(int(status[1]), header, _decoded(body, header.get("content-encoding", ""), most_bytes))


def _looks_chunked(body: bytes) -> bool:
    """Many crawlers join the chunks and leave the header as it was."""
    return re.match(rb"[0-9A-Fa-f]{1,8}[ \t]*(?:;[^\r\n]*)?\r\n", body) is not None


def _joined(body: bytes) -> bytes:
    chunks: list[bytes] = []
    position = 0
    while True:
        end = body.find(b"\r\n", position)
        size = body[position:end].partition(b";")[0].strip()
        if end < 0 or re.fullmatch(rb"[0-9A-Fa-f]{1,8}", size) is None:
            raise NotWhole("its chunks do not fit together")
        length = int(size, 16)
        if length == 0:
            return b"".join(chunks)
        if end + 2 + length > len(body):
            raise NotWhole("its last chunk is not whole")
        chunks.append(body[end + 2 : end + 2 + length])
        position = end + 2 + length + 2


def _decoded(body: bytes, encoding: str, most_bytes: int) -> bytes:
    encoding = encoding.strip().lower()
    if encoding in ("", "identity") or (encoding in ("gzip", "x-gzip") and not body.startswith(b"\x1f\x8b")):
        return body[:most_bytes]  # the latter as with chunks: decoded by the crawler
    if encoding not in _WINDOWS:
        raise NotWhole(f"its body is encoded as {encoding[:40]!r}, which is unknown here")
    window = _WINDOWS[encoding]
    if encoding == "deflate" and not _has_zlib_header(body):
        window = _RAW_DEFLATE
    try:
        return zlib.decompressobj(window).decompress(body, most_bytes)
    except zlib.error as error:
        raise NotWhole(f"its body is not to be decompressed: {error}") from None


def _has_zlib_header(body: bytes) -> bool:
    """Some servers take deflate for what the standard calls so, others for the bare stream."""
    return len(body) >= 2 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0
