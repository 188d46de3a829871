"""Names of files and folders, made of any text."""

from __future__ import annotations

import hashlib
import re

_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]*")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.+@-]+")
_LONGEST_NAME, _LONGEST_CLEANED = 200, 80


def safe_name(text: str) -> str:
    """Make a file name from a text: the text itself if it is safe, otherwise cleaned, with a hash."""
    if is_safe_name(text):
        return text
    cleaned = _UNSAFE.sub("_", text).lstrip(".+@-")[:_LONGEST_CLEANED]
    return f"{cleaned}_{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def is_safe_name(text: str) -> bool:
    """True if the text consists of letters, digits and `_ . - + @` and begins with a letter, a digit or `_`."""
    return _SAFE.fullmatch(text) is not None and len(text) <= _LONGEST_NAME
