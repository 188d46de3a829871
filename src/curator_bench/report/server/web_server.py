"""An HTTP server for one person on this machine. Whoever does not know its token gets one sentence, and nothing else.

The token is the first part of every path, so relative links keep it. A cookie would not do: browsers send it to all
ports of a host, so also to servers of other users.
"""

from __future__ import annotations

import errno
import io
import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from curator_bench.errors import BenchError

LOOPBACK = "127.0.0.1"
HTML, JSON, TEXT = "text/html; charset=utf-8", "application/json", "text/plain; charset=utf-8"
_HOSTS = frozenset([LOOPBACK, "localhost"])
_REQUEST_WITHIN_S = 5.0
_SENT_WITHIN_S = 30.0
_LARGEST_REQUEST = 16 * 1024
_MOST_UNREAD = 64
"""The number of connections whose request is not read yet. One more, and the oldest is closed."""
_MOST_ANSWERED = 16
_NO_TOKEN = (
    "Open the address that curator-bench serve printed: the token in it is missing here or is not the right one."
)
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request of somebody who knows the token."""

    content: bytes
    kind: str = HTML
    status: int = 200


Answers: TypeAlias = Callable[[str, Mapping[str, str]], Answer | None]
"""From a path and a query to an answer; None if there is no such page."""


def sentence(status: int, text: str) -> Answer:
    return Answer(f"{text}\n".encode(), TEXT, status)


class WebServer(ThreadingHTTPServer):
    """Answers on loopback. A client that is slow to say what it wants does not keep others waiting."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int, answers: Answers = lambda path, query: None) -> None:
        """`port` 0 takes any that is free."""
        self.answers = answers
        self._token = secrets.token_urlsafe(32)
        self._lock = threading.Lock()
        self._unread: dict[socket.socket, None] = {}
        self.answering = threading.Semaphore(_MOST_ANSWERED)
        try:
            super().__init__((LOOPBACK, port), _Request)
        except (OSError, OverflowError) as error:
            is_taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
            why = "is in use" if is_taken else f"cannot be used ({getattr(error, 'strerror', None) or error})"
            raise BenchError(f"port {port} {why}: name another one, or leave out --port for any that is free") from None

    @property
    def address(self) -> str:
        """The address of the first page, with the token."""
        return f"http://{LOOPBACK}:{self.server_address[1]}/{self._token}/"

    def knows(self, token: str) -> bool:
        return secrets.compare_digest(token.encode("utf-8", "replace"), self._token.encode())

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's own would ask for the name of the host, which may take long
        self.server_name, self.server_port = LOOPBACK, self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._unread[request] = None
            oldest = next(iter(self._unread)) if len(self._unread) > _MOST_UNREAD else None
            if oldest is not None:
                del self._unread[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread reads the end, and closes it
        super().process_request(request, client_address)

    def note_read(self, connection: socket.socket) -> None:
        with self._lock:
            self._unread.pop(connection, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: the client went away. Errors of pages are logged where they happen."""


class _Request(BaseHTTPRequestHandler):
    server: WebServer

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BytesIO(self._read_head())
        self.server.note_read(self.connection)
        self.connection.settimeout(_SENT_WITHIN_S)

    def _read_head(self) -> bytes:
        """Read the request up to its empty line; empty if it does not come in time or is too long."""
        head, deadline = b"", time.monotonic() + _REQUEST_WITHIN_S
        while b"\r\n\r\n" not in head:
            left = deadline - time.monotonic()
            if left <= 0 or len(head) > _LARGEST_REQUEST:
                return b""
            self.connection.settimeout(left)
            try:
                piece = self.connection.recv(4096)
            except OSError:
                return b""
            if not piece:
                return b""
            head += piece
        return head

    def do_GET(self) -> None:
        self._send(self._answer())

    def do_HEAD(self) -> None:
        self._send(self._answer())

    def _answer(self) -> Answer:
        if _host_name(self.headers.get("Host", "")) not in _HOSTS:
            return sentence(403, f"This server answers to {LOOPBACK} and localhost alone.")
        asked = urlsplit(self.path)
        token, slash, path = asked.path.removeprefix("/").partition("/")
        if not self.server.knows(token):
            return sentence(403, _NO_TOKEN)
        if not slash:
            return sentence(404, "Add a / to the address.")
        try:
            query = dict(parse_qsl(asked.query, max_num_fields=10))
            with self.server.answering:
                return self.server.answers(unquote(path), query) or sentence(404, "There is no such page.")
        except ValueError:
            return sentence(400, "This is not an address of this server.")
        except Exception:
            logging.getLogger(__name__).exception("a page could not be shown")
            return sentence(500, "This page could not be made. The terminal of curator-bench serve says why.")

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.content)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is no request this server knows, with or without a token."""
        self.close_connection = True
        is_other_method = code == 501
        self._send(sentence(405, "This server shows pages, it takes no orders.") if is_other_method else _NOT_HTTP)

    def version_string(self) -> str:
        return "curator-bench"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: addresses contain the token."""


_NOT_HTTP = sentence(400, "This is not a request that this server understands.")


def _host_name(host: str) -> str:
    """Return the name in a Host header. The port is another one behind `ssh -L`."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()
