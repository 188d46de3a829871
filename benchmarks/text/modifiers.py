"""The modifiers of texts that NeMo Curator's nightly chains, in its order, and with its results.

One of its six is left out: UnicodeReformatter is a call of the library ftfy, and nothing of ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from itertools import pairwise

from heuristics import is_boilerplate

Modifier = Callable[[str], str]

_MARKDOWN = tuple(re.compile(pattern) for pattern in (r"\*\*(.*?)\*\*", r"\*(.*?)\*", r"_(.*?)_", r"\[.*?\]\((.*?)\)"))
_NEWLINES = re.compile(r"\n{3,}")
_WINDOWS_NEWLINES = re.compile(r"(\r\n){3,}")
_ADDRESS = re.compile(r"https?://\S+|www\.\S+", re.IGNORECASE)


def modified(text: str) -> str:
    return reduce(lambda changed, modify: modify(changed), MODIFIERS, text)


def without_boilerplate(text: str) -> str:
    """Without paragraphs of boilerplate at the top or the bottom; elsewhere they stay. Filler texts become empty."""
    if "lorem ipsum" in text.lower():
        return ""
    paragraphs = text.split("\n\n")
    found = [index for index, paragraph in enumerate(paragraphs) if is_boilerplate(paragraph)]
    if not found or len(found) == len(paragraphs) or any(later != before + 1 for before, later in pairwise(found)):
        return text
    if found[0] != 0 and found[-1] != len(paragraphs) - 1:
        return text
    return "\n\n".join(paragraph for index, paragraph in enumerate(paragraphs) if index not in set(found))


def without_markdown(text: str) -> str:
    """Line by line without marks of bold, italics and underlining; a link becomes its address."""
    lines = text.split("\n")
    for pattern in _MARKDOWN:
        lines = [pattern.sub(r"\1", line) for line in lines]
    return "\n".join(lines)


def with_few_newlines(text: str) -> str:
    return _WINDOWS_NEWLINES.sub("\r\n\r\n", _NEWLINES.sub("\n\n", text))


def without_quotes(text: str) -> str:
    """Without the quotation marks around all of it, unless its first line is a quotation of its own."""
    stripped = text.strip()
    if len(stripped) <= 2 or text[0] != '"' or text[-1] != '"':
        return text
    return text[1:-1] if "\n" not in stripped or not text.split("\n")[0].endswith('"') else text


def without_addresses(text: str) -> str:
    return _ADDRESS.sub("", text)


MODIFIERS: tuple[Modifier, ...] = (
    without_boilerplate,
    without_markdown,
    with_few_newlines,
    without_quotes,
    without_addresses,
)
