"""The text of papers from an archive of arXiv: a tar of papers, each a gzipped LaTeX file or a gzipped tar of some.

What is read and what is cut away is what NeMo Curator's ArxivIterator and ArxivExtractor read and cut away.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_MACROS = (
    re.compile(r"\\\bnewcommand\b\*?\{(\\[a-zA-Z0-9]+?)\}\{(.*?)\}$", re.MULTILINE),
    re.compile(r"\\def\s*(\\[a-zA-Z0-9]+?)\s*\{(.*?)\}$", re.MULTILINE),
)
_HEADER = re.compile(
    r"\\(?:(?:chapter|part|section|subsection|subsubsection)\b\*?(?:\[.*?\])?\{.*?\}"
    r"|paragraph\b\*?(?:\[.*?\])?\{.*?\}\\subparagraph\b\*?(?:\[.*?\])?\{.*?\})",
    re.DOTALL,
)
"""What a text begins with. That a paragraph counts only before a subparagraph is so there, too."""
_COMMENT_LINES = re.compile(r"^%.*\n?", re.MULTILINE)
_COMMENTS = re.compile(r"[^\\]%.+$", re.MULTILINE)
_REST = re.compile(
    r"(?:\\appendix|\\begin\{references\}|\\begin\{REFERENCES\}|\\begin\{thebibliography\}|\\bibliography\{.*\}).*$",
    re.DOTALL,
)
_OLD_ID = re.compile(r"^([a-zA-Z-]*)([\d.]+)$")


class Paper(NamedTuple):
    """A paper by the name arXiv gives it, and its LaTeX files."""

    name: str
    sources: list[str]


def papers_in(archive: Path) -> Iterator[Paper]:
    """Those that can be read; of what is no archive, and no UTF-8, nothing is said."""
    with tarfile.open(archive) as papers:
        for member in papers:
            if (file := papers.extractfile(member)) is None:
                continue
            sources = _sources(file.read())
            if sources is not None:
                yield Paper(_name(Path(member.name).stem), sources)


def text_of(paper: Paper) -> str | None:
    """Each file from its first header to its references, without comments, with macros written out."""
    macros = {name: value for source in paper.sources for name, value in _macros(source)}
    text = "\n".join(_clean(source, macros) for source in paper.sources)
    return text or None


def _sources(content: bytes) -> list[str] | None:
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as project:
            found = [project.extractfile(member) for member in project.getmembers() if member.name.endswith(".tex")]
            contents = [file.read() for file in found if file is not None]
    except tarfile.ReadError:
        try:
            contents = [gzip.decompress(content)]
        except (OSError, EOFError):
            return None
    try:
        return [content.decode("utf-8") for content in contents]
    except UnicodeDecodeError:
        return None


def _name(name: str) -> str:
    """`math0001001` is math/0001001; later names are numbers alone."""
    match = _OLD_ID.search(name)
    return name if match is None or not match[1] else f"{match[1]}/{match[2]}"


def _macros(source: str) -> Iterator[tuple[str, str]]:
    """Macros without arguments, and what they stand for."""
    for kind in _MACROS:
        for match in kind.finditer(source):
            yield match[1], match[2]


def _clean(source: str, macros: dict[str, str]) -> str:
    begin = _HEADER.search(source)
    if begin is None:
        return ""
    text = _COMMENT_LINES.sub("", source[begin.start() :])
    text = _REST.sub("", _COMMENTS.sub("", text))
    for name, value in macros.items():
        literally = value.replace("\\", r"\\")
        text = re.sub(f"{re.escape(name)}([^a-zA-Z0-9])", rf"{literally}\g<1>", text)
    return text
