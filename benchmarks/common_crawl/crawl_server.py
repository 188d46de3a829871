"""Serves a folder over HTTP on loopback, with ranges, as the servers of a crawl do; it can be asked to break off."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

_RANGE = re.compile(r"bytes=(\d+)-(\d*)\Z")
_PIECE = 256 * 1024


class Interruptions:
    """Which answers break off halfway: the first one for each file whose name ends so."""

    def __init__(self, suffix: str | None) -> None:
        self._suffix = suffix
        self._served: set[Path] = set()
        self._lock = threading.Lock()

    def is_due(self, file: Path) -> bool:
        with self._lock:
            is_first = file not in self._served
            self._served.add(file)
        return self._suffix is not None and is_first and file.name.endswith(self._suffix)


@contextmanager
def serving(root: Path, *, interrupt: str | None = None) -> Iterator[str]:
    """Gives the address. With `interrupt`, the first answer for each file whose name ends so breaks off halfway."""
    handler = partial(_Handler, root.resolve(), Interruptions(interrupt))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, root: Path, interruptions: Interruptions, *connection: object) -> None:
        self._root = root
        self._interruptions = interruptions
        super().__init__(*connection)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        file = (self._root / unquote(urlsplit(self.path).path).lstrip("/")).resolve()
        if not (file.is_file() and file.is_relative_to(self._root)):
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        size, tag = file.stat().st_size, f'"{file.stat().st_mtime_ns:x}-{file.stat().st_size:x}"'
        begin, end = self._asked(size, tag)
        if begin >= end and size:
            self._send_head(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, 0, tag, f"bytes */{size}")
            return
        is_part = (begin, end) != (0, size)
        status = HTTPStatus.PARTIAL_CONTENT if is_part else HTTPStatus.OK
        self._send_head(status, end - begin, tag, f"bytes {begin}-{end - 1}/{size}" if is_part else None)
        with file.open("rb") as content:
            self._send(content, begin, end, breaks_off=self._interruptions.is_due(file))

    def _asked(self, size: int, tag: str) -> tuple[int, int]:
        """The part that is asked for; all of it where the file is not the one that was begun with."""
        asked = _RANGE.match(self.headers.get("Range", ""))
        if asked is None or self.headers.get("If-Range", tag) != tag:
            return 0, size
        return int(asked[1]), min(size, int(asked[2]) + 1) if asked[2] else size

    def _send_head(self, status: HTTPStatus, length: int, tag: str, content_range: str | None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(length))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", tag)
        if content_range:
            self.send_header("Content-Range", content_range)
        self.end_headers()

    def _send(self, content: BinaryIO, begin: int, end: int, *, breaks_off: bool) -> None:
        if breaks_off:
            end = begin + (end - begin) // 2
            self.close_connection = True
        content.seek(begin)
        while begin < end and (piece := content.read(min(_PIECE, end - begin))):
            self.wfile.write(piece)
            begin += len(piece)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads a line for each request."""
