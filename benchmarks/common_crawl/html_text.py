"""The text of a web page: its title, and what a reader would see of its body, a line for each block.

It reads a page once from left to right, whatever stands there: what has no end goes on to the end of the page, as in a
browser, so no page takes longer than its length. That is why it is not built on `html.parser`, to which some do.
"""

from __future__ import annotations

import codecs
import html
import re
from contextlib import suppress
from dataclasses import dataclass

_NAMES_OF_BLOCKS = """
    address article aside blockquote body br caption center dd details dialog div dl dt fieldset figcaption figure
    footer form h1 h2 h3 h4 h5 h6 header hr html legend li main menu nav ol optgroup option p pre section summary table
    tbody tfoot thead title tr ul
"""
_BLOCKS = frozenset(_NAMES_OF_BLOCKS.split())
_CELLS = frozenset(("td", "th"))
_UNSEEN = frozenset(("script", "style", "noscript", "template", "svg", "math", "iframe", "object"))
_FOREIGN = frozenset(("svg", "math"))
_UNSEEN_EVEN_WITHOUT_END = frozenset(("script", "style"))

# Quotes count only after an equals sign. Nothing is tried twice (`*+`), so this takes no longer than the tag is long.
_TAG = re.compile(r"""<(/?)([a-zA-Z][^\s/>]*)(?:[^>=]|=\s*+(?:"[^"]*"|'[^']*')?)*+>""")
_BEGINS_TAG = re.compile(r"</?[a-zA-Z]")
_BEGINS_COMMENT = re.compile(r"<!--")
_ENDS_COMMENT = re.compile(r"(?<=<!--)-?>|--!?>")
_BEGINS_OTHER = re.compile(r"<[!?/]")

_CHARSET = re.compile(rb"""<meta[^>]{0,300}?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_CHARSET_OF_HEADER = re.compile(r"""charset\s*=\s*["']?([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_BYTES_WITH_META = 4096
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# What browsers take these names for.
_MEANT = {"iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030", "euc_kr": "cp949"}
_NOT_OF_PAGES = frozenset(("idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "utf-7"))
_FALLBACK = "cp1252"


@dataclass(frozen=True, slots=True)
class Page:
    """What is kept of a page."""

    title: str
    text: str


def page_of(body: bytes, content_type: str = "") -> Page:
    """Never fails: pages are as they are."""
    return _PageReader(decode(body, content_type)).page()


def decode(body: bytes, content_type: str = "") -> str:
    """By the byte order mark, else as the header says, else as the page says, else UTF-8, else as in the West."""
    for mark, name in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    said = _CHARSET_OF_HEADER.search(content_type)
    meta = _CHARSET.search(body, 0, _BYTES_WITH_META)
    for name in (said[1] if said else "", meta[1].decode() if meta else ""):
        if codec := _codec(name):
            return body.decode(codec, "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body.decode(_FALLBACK, "replace")


def _codec(name: str) -> str | None:
    """The codec of that name; None where there is none that text could be encoded with."""
    try:
        found = codecs.lookup(name).name
        "".encode(found)
    except (LookupError, UnicodeError):
        return None
    return None if found in _NOT_OF_PAGES else _MEANT.get(found, found)


class _PageReader:
    """Goes through one page."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._lines: list[str] = []
        self._line: list[str] = []
        self._title: str | None = None
        self._without_end: set[str] = set()
        """Elements of which no further end is in the page: there is no point in looking again."""

    def page(self) -> Page:
        position = 0
        while (begin := self._source.find("<", position)) >= 0:
            self._line.append(self._source[position:begin])
            position = self._after(begin)
        self._line.append(self._source[position:])
        self._end_line()
        return Page(self._title or "", "\n".join(self._lines))

    def _after(self, begin: int) -> int:
        """Where to go on after what begins with this `<`."""
        if _BEGINS_TAG.match(self._source, begin):
            tag = _TAG.match(self._source, begin)
            return self._after_tag(tag) if tag else len(self._source)
        if _BEGINS_COMMENT.match(self._source, begin):
            end = _ENDS_COMMENT.search(self._source, begin + 4)
            return end.end() if end else len(self._source)
        if _BEGINS_OTHER.match(self._source, begin):
            return self._source.find(">", begin) + 1 or len(self._source)
        self._line.append("<")
        return begin + 1

    def _after_tag(self, tag: re.Match[str]) -> int:
        name, is_end = tag[2].lower(), bool(tag[1])
        if name in _BLOCKS:
            self._end_line()
        elif name in _CELLS:
            self._line.append(" ")
        is_empty = name in _FOREIGN and tag[0].endswith("/>")
        if is_end or is_empty or name not in (*_UNSEEN, "title"):
            return tag.end()
        end = self._end_of(name, tag.end())
        if end is None:
            return len(self._source) if name in _UNSEEN_EVEN_WITHOUT_END else tag.end()
        if name == "title" and self._title is None:
            self._title = _as_read(self._source[tag.end() : end])
        return end

    def _end_of(self, name: str, begin: int) -> int | None:
        """Where the end tag of an element begins."""
        if name in self._without_end:
            return None
        end = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(self._source, begin)
        if end is None:
            self._without_end.add(name)
            return None
        return end.start()

    def _end_line(self) -> None:
        if line := _as_read("".join(self._line)):
            self._lines.append(line)
        self._line.clear()


def _as_read(source: str) -> str:
    """With references replaced, and one space wherever there is any."""
    with suppress(ValueError):  # a number of thousands of digits
        source = html.unescape(source)
    return " ".join(source.split())
