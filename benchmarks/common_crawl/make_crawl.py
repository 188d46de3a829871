"""Makes a small web crawl, laid out as Common Crawl's are, the same for the same size and seed.

Into OUT go crawl/, to be served, and truth/files.json: what text each page holds, and how many records are broken. It
imports nothing beside it: a crawl is made anew when this file or its arguments change.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import html
import json
import random
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

SIZES = {"S": (4, 100), "M": (20, 1_500), "L": (100, 4_000)}
"""Files, and pages in each."""
CRAWL = "CC-MAIN-0000-00"
DATE = "2026-01-23T14:30:00Z"

_LATIN = ("river", "mountain", "window", "paper", "garden", "winter", "summer", "bread", "market", "letter", "lantern")
_ACCENTED = ("café", "naïve", "façade", "déjà", "Zürich", "smörgås", "niño", "élève", "Übung", "crème")
_JAPANESE = ("東京", "大阪", "日本語", "図書館", "新聞", "天気", "電車", "音楽")
_SIGNS = ("&", "<tag>", '"quoted"', "a > b", "R&D", "100 %", "–", "…")
_CHARSETS = (
    ("utf-8", (*_LATIN, *_ACCENTED, *_JAPANESE)),
    ("iso-8859-1", (*_LATIN, *_ACCENTED)),
    ("shift_jis", _JAPANESE),
)
_WEIGHTS = (8, 1, 1)


@dataclass(frozen=True, slots=True)
class Page:
    """A page and the text that is in it."""

    url: str
    title: str
    blocks: tuple[str, ...]
    message: bytes

    def digest(self) -> str:
        text = "\n".join((self.title, *self.blocks))
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


class PageMaker:
    """Makes the pages of one file: each with what real ones have around, between and within their words."""

    def __init__(self, seed: int, file: int) -> None:
        self._random = random.Random(f"{seed} {file}")
        self._file = file

    def page(self, number: int) -> Page:
        ((charset, words),) = self._random.choices(_CHARSETS, _WEIGHTS)
        title = self._sentence(words, 4)
        blocks = tuple(self._sentence(words, self._random.randint(5, 60)) for _ in range(self._random.randint(8, 40)))
        body = self._html(title, blocks, charset).encode(charset, "xmlcharrefreplace")
        url = f"https://site-{number % 13}.example.org/{self._file}/{number}.html"
        return Page(url, title, blocks, self._message(body, charset))

    def _sentence(self, words: tuple[str, ...], length: int) -> str:
        chosen = self._random.choices(words, k=length)
        if self._random.random() < 0.3:
            chosen.insert(length // 2, self._random.choice(_SIGNS))
        return " ".join(chosen)

    def _html(self, title: str, blocks: tuple[str, ...], charset: str) -> str:
        head = f'<meta charset="{charset}"><title>{html.escape(title)}</title><style>p {{ color: red }}</style>'
        written = "\n".join(self._block(block) for block in blocks)
        script = '<script>if (1 < 2) document.write("<p>not a text</p>");</script>'
        return (
            f"<!DOCTYPE html>\n<html><head>{head}</head>\n<body>{script}\n{written}\n<!-- the end --></body></html>\n"
        )

    def _block(self, text: str) -> str:
        inner = self._random.choice(("\n  ", " ", "  ")).join(self._marked_up(word) for word in text.split())
        shape = self._random.choice(
            (
                "<p>{}</p>",
                "<div class='a &gt; b'><span>{}</span></div>",
                "<ul><li>{}</li></ul>",
                "<h2 id=x>{}</h2>",
                "<table><tr><td>{}</td></tr></table>",
                "<p>{}<noscript>switch it on</noscript></p>",
                "<![endif]--><p>{}<br>",
                "<section>{}<template><p>unseen</p></template></section>",
            )
        )
        return shape.format(inner)

    def _marked_up(self, word: str) -> str:
        escaped = html.escape(word)
        chance = self._random.random()
        if chance < 0.05:
            return f"<b>{escaped}</b>"
        if chance < 0.1:
            return f'<a href="/?a=1&b=2">{escaped}</a>'
        return "".join(f"&#{ord(sign)};" for sign in word) if chance < 0.12 else escaped

    def _message(self, body: bytes, charset: str) -> bytes:
        """The answer of the server. A few are sent in chunks, or compressed, or do not name their charset."""
        chance = self._random.random()
        named = "" if chance < 0.1 else f"; charset={charset}"
        extra = ""
        if 0.1 <= chance < 0.2:
            body, extra = gzip.compress(body, mtime=0), "Content-Encoding: gzip\r\n"
        elif 0.2 <= chance < 0.3:
            body, extra = _chunked(body), "Transfer-Encoding: chunked\r\n"
        return _answer("200 OK", f"text/html{named}", body, extra)


def _answer(status: str, kind: str, body: bytes, extra: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{extra}\r\n".encode() + body


def _chunked(body: bytes) -> bytes:
    pieces = [body[begin : begin + 1_000] for begin in range(0, len(body), 1_000)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def record(kind: str, uri: str, content: bytes, *, says: int | str | None = None) -> bytes:
    """`says` is the length in its header, where that is not the true one."""
    name = hashlib.blake2b(kind.encode() + uri.encode(), digest_size=16).hexdigest()
    length = len(content) if says is None else says
    header = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Date: {DATE}\r\nWARC-Record-ID: <urn:uuid:{name}>\r\n"
        f"WARC-Target-URI: {uri}\r\nContent-Type: application/http; msgtype={kind}\r\nContent-Length: {length}\r\n\r\n"
    )
    return header.encode() + content + b"\r\n\r\n"


def member(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def _damaged(packed: bytes) -> bytes:
    """With a passage in the middle that is no deflate stream."""
    middle = len(packed) // 2
    return packed[:middle] + b"\xff" * 40 + packed[middle + 40 :]


def _with_wrong_checksum(packed: bytes) -> bytes:
    return packed[:-8] + bytes(byte ^ 0xFF for byte in packed[-8:-4]) + packed[-4:]


_URI = "https://broken.example.org/"
_ANSWER = _answer("200 OK", "text/html", b"<p>" + bytes(range(32, 127)) * 40)
BROKEN: tuple[Callable[[], bytes], ...] = (
    lambda: _damaged(member(record("response", _URI, _ANSWER + random.Random(1).randbytes(4_000)))),
    lambda: _with_wrong_checksum(member(record("response", _URI, _ANSWER))),
    lambda: member(record("response", _URI, _ANSWER, says=len(_ANSWER) + 1_000)),
    lambda: member(record("response", _URI, _ANSWER, says="many")),
    lambda: member(b"not a record at all\r\n\r\n" * 20),
    lambda: member(record("response", _URI, b"no answer of a server")),
    lambda: member(
        record("response", _URI, _answer("200 OK", "text/html", zlib.compress(b"x"), "Content-Encoding: br\r\n"))
    ),
)
"""A record each, broken in a way of its own. Every file has all of them, and breaks off within its last record."""


def not_pages(number: int) -> list[bytes]:
    """Records that are whole, and of which no text is to be had."""
    uri = f"https://other.example.org/{number}"
    return [
        record("response", uri + ".png", _answer("200 OK", "image/png", b"\x89PNG" + bytes(200))),
        record("response", uri + ".gone", _answer("404 Not Found", "text/html", b"<p>not found</p>")),
        record("revisit", uri, b"HTTP/1.1 304 Not Modified\r\n\r\n"),
    ]


def write_file(root: Path, seed: int, pages: int, number: int) -> tuple[str, str, dict[str, Any]]:
    """One file: its path on the server, its name, and what is known of it."""
    name = f"CC-MAIN-20260123143000-{number:05d}.warc.gz"
    path = f"crawl-data/{CRAWL}/segments/{1_700_000_000 + number // 10}.0/warc/{name}"
    maker, known = PageMaker(seed, number), {}
    broken_after = {pages * (place + 1) // (len(BROKEN) + 1): make for place, make in enumerate(BROKEN)}
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as output:
        output.write(member(record("warcinfo", name, b"isPartOf: " + CRAWL.encode())))
        for page_number in range(pages):
            page = maker.page(page_number)
            known[page.url] = page.digest()
            output.write(member(record("request", page.url, b"GET / HTTP/1.1\r\n\r\n")))
            output.write(member(record("response", page.url, page.message)))
            output.write(member(record("metadata", page.url, b"fetchTimeMs: 42")))
            if make := broken_after.get(page_number):
                output.write(make())
                output.writelines(member(other) for other in not_pages(page_number))
        output.write(member(record("response", _URI, _ANSWER))[:-100])
    return path, name, {"broken": len(BROKEN) + 1, "pages": known}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=sorted(SIZES), required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    files, pages = SIZES[options.size]
    root, truth = options.out / "crawl", options.out / "truth"
    with ProcessPoolExecutor() as pool:
        written = list(pool.map(partial(write_file, root, options.seed, pages), range(files)))
    listing = "".join(f"{path}\n" for path, _, _ in written)
    (root / "crawl-data" / CRAWL / "warc.paths.gz").write_bytes(gzip.compress(listing.encode(), mtime=0))
    truth.mkdir(parents=True, exist_ok=True)
    (truth / "files.json").write_text(json.dumps({name: known for _, name, known in written}))


if __name__ == "__main__":
    main()
