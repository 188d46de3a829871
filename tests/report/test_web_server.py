"""The server of the dashboard, asked as others on the machine may ask it."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from curator_bench.errors import BenchError
from curator_bench.report.server.live_sessions import LiveSessions
from curator_bench.report.server.pages import Building, ServedPages
from curator_bench.report.server.web_server import Answer, WebServer
from curator_bench.report.site.build import Settings

SENTENCE = (
    b"Open the address that curator-bench serve printed: the token in it is missing here or is not the right one.\n"
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The folder of a dashboard, and what must not be reached from it."""
    folder = tmp_path / "private" / "site"
    (folder / "entries").mkdir(parents=True)
    (folder / "index.html").write_text("overview")
    (folder / "entries" / "a.html").write_text("entry")
    (folder / ".curator-bench-site").write_text("secret")
    (folder / "secret").write_text("secret")
    (tmp_path / "private" / "secret.html").write_text("secret")
    (folder / "link.html").symlink_to(tmp_path / "private" / "secret.html")
    (folder / "linked").symlink_to(tmp_path / "private")
    return folder


@pytest.fixture
def server(site: Path) -> Iterator[WebServer]:
    live = LiveSessions(lambda folder: False, list)
    pages = ServedPages(site, Settings(is_served=True), lambda: Building(is_there=True), print, live, lambda uid: None)
    with WebServer(0, pages.answer) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.05,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(
    server: WebServer, path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
) -> tuple[int, Mapping[str, str], bytes]:
    """Ask for a path as it is, which clients would tidy up."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
    connection.putrequest(method, path, skip_host="Host" in (headers or {}))
    for name, value in (headers or {}).items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), content


def top(server: WebServer) -> str:
    return urlsplit(server.address).path


@pytest.mark.parametrize("path", ["", "index.html", "entries/a.html", "assets/site.css", "assets/log.js", "now.html"])
def test_every_address_needs_the_token(server: WebServer, path: str) -> None:
    status, headers, content = ask(server, top(server) + path)
    assert (status, bool(content)) == (200, True)
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    token = top(server).strip("/")
    for wrong in (f"/{path}", f"/{token[:-1]}/{path}", f"/{token}x/{path}", f"//{path}", f"/{token.lower()}/{path}"):
        assert ask(server, wrong)[::2] == (403, SENTENCE)
    assert ask(server, f"/{path}", {"Cookie": f"token={token}"})[::2] == (403, SENTENCE)


@pytest.mark.parametrize(
    "path",
    [
        "../secret.html",
        "%2e%2e/secret.html",
        "entries/../../secret.html",
        "entries/..%2f..%2fsecret.html",
        "..%5csecret.html",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "//etc/passwd.html",
        ".curator-bench-site",
        "secret",
        "link.html",
        "linked/secret.html",
        "assets/../index.html",
        "assets/entries/a.html",
        "assets/%00.js",
        "index.html%00.js",
        "log.html?run=../../secret",
        "log.html?session=..&entry=..",
        "log.json?session=x&entry=/etc/passwd",
        "entries",
        "entries/",
    ],
)
def test_nothing_outside_the_dashboard_is_shown(server: WebServer, path: str) -> None:
    status, _, content = ask(server, top(server) + path)
    assert (status, content) == (404, b"There is no such page.\n")


@pytest.mark.parametrize("page", ["../secret.html", "/etc/passwd", "..", "%00.html", "linked/secret.html"])
def test_news_of_a_page_tell_nothing_of_other_files(server: WebServer, page: str) -> None:
    assert b'"written": ""' in ask(server, f"{top(server)}state.json?page={page}")[2]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::1", "10.0.0.1"])
def test_a_name_that_was_made_to_lead_here_is_refused(server: WebServer, host: str) -> None:
    status, _, content = ask(server, top(server), {"Host": host})
    assert (status, content) == (403, b"This server answers to 127.0.0.1 and localhost alone.\n")
    assert ask(server, top(server), {"Host": "localhost:8000"})[0] == 200  # as behind `ssh -L 8000:…`


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "do_GET"])
def test_there_is_nothing_but_to_look(server: WebServer, method: str) -> None:
    assert ask(server, top(server), method=method)[0] == 405
    status, headers, content = ask(server, top(server), method="HEAD")
    assert (status, headers["Content-Length"], content) == (200, str(len("overview")), b"")


def raw(server: WebServer, content: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=20) as connection:
        connection.sendall(content)
        connection.shutdown(socket.SHUT_WR)
        found = b""
        while piece := connection.recv(4096):
            found += piece
        return found


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"GET",
        b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n",
        b"GET / HTTP/9\r\n\r\n",
        b"GET /\r\n\r\n",
        b"\x16\x03\x01\x02\0" * 20 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
    ],
)
def test_what_is_no_request_gets_no_page(server: WebServer, content: bytes) -> None:
    answer = raw(server, content)
    assert b"overview" not in answer
    assert b"Traceback" not in answer
    assert ask(server, top(server))[0] == 200


def test_a_request_that_is_too_long_is_not_read_to_its_end(server: WebServer) -> None:
    address = ("127.0.0.1", server.server_address[1])
    with socket.create_connection(address, timeout=20) as connection, pytest.raises(ConnectionError):
        connection.sendall(b"x" * 2**27)
    assert ask(server, top(server))[0] == 200


def test_clients_that_say_nothing_keep_nobody_waiting(server: WebServer) -> None:
    address = ("127.0.0.1", server.server_address[1])
    idle = [socket.create_connection(address, timeout=20) for _ in range(200)]
    try:
        began = time.monotonic()
        assert ask(server, top(server))[0] == 200
        assert time.monotonic() - began < 4  # before any of them is given up
        assert sum(thread.name.startswith("Thread-") for thread in threading.enumerate()) < 120
    finally:
        for one in idle:
            one.close()


def test_a_port_that_is_taken_is_named(server: WebServer) -> None:
    port = server.server_address[1]
    with pytest.raises(BenchError, match=rf"^port {port} is in use: name another one, or leave out --port"):
        WebServer(port)


def test_a_page_that_fails_says_so_without_a_word_of_why(site: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def fails(path: str, query: Mapping[str, str]) -> Answer | None:
        raise RuntimeError("secret")

    with WebServer(0, fails) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        status, _, content = ask(server, f"{top(server)}x?secret")
        server.shutdown()
        thread.join()
    assert status == 500
    assert b"secret" not in content
    assert top(server).strip("/") not in capfd.readouterr().err


def test_a_file_that_is_not_built_yet_is_asked_for_and_waited_for(site: Path) -> None:
    state, wanted = [Building(doing="Writing pages")], []

    live = LiveSessions(lambda folder: False, list)
    (site / "data" / "entries").mkdir(parents=True)

    def write_data(file: str) -> None:
        wanted.append(file)
        threading.Timer(0.2, (site / "data" / "entries" / "b.js").write_text, ["its data"]).start()

    pages = ServedPages(site, Settings(is_served=True), lambda: state[0], write_data, live, lambda uid: None)
    found = pages.answer("data/entries/b.js", {})
    assert found is not None
    assert found.content == b"its data"
    page = pages.answer("entries/b.html", {})
    assert page is not None
    assert b"This page is being built" in page.content
    assert wanted == ["data/entries/b.js", "entries/b.html"]
    state[0] = Building(is_there=True)
    assert pages.answer("entries/b.html", {}) is None
    assert len(wanted) == 2
