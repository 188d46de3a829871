"""Conversion of unquoted scalars to values, and of values to the words of messages."""

from __future__ import annotations

import re
from typing import Any

from curator_bench.matrix.tree import Filled

_NULLS = frozenset(["", "~", "null", "Null", "NULL"])
_TRUES = frozenset(word for base in ("yes", "true", "on") for word in (base, base.capitalize(), base.upper()))
_FALSES = frozenset(word for base in ("no", "false", "off") for word in (base, base.capitalize(), base.upper()))
_INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)\Z")
_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?\Z"
    r"|[-+]?[1-9][0-9_]*[eE][-+]?[0-9]+\Z"
)
_SPECIAL_FLOAT = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")
_LONGEST_NUMBER = 400
_LONGEST_SHOWN = 60


def resolve_plain(text: str) -> Any:
    """Convert an unquoted scalar by YAML 1.1, as PyYAML does.

    Three cases follow YAML 1.2, which is what people mean: dates and 12:30 stay text; 1e3 and -.5 are numbers; 0o17 is
    octal.
    """
    if text in _NULLS:
        return None
    if text in _TRUES:
        return True
    if text in _FALSES:
        return False
    if text[0] not in "+-.0123456789" or len(text) > _LONGEST_NUMBER:
        return text
    if _INTEGER.match(text):
        return _integer(text)
    if _FLOAT.match(text):
        return float(text.replace("_", ""))
    if _SPECIAL_FLOAT.match(text):
        return float(text.lower().replace(".", ""))
    return text


def _integer(text: str) -> int | str:
    digits = text.replace("_", "")
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    try:
        if digits.startswith("0") and len(digits) > 1 and digits[1] in "01234567":
            return sign * int(digits, 8)
        return sign * int(digits, 0)
    except ValueError:
        return text  # 0x_ and its like


def describe(value: Any) -> str:
    """Describe a value in a message: its kind, or the value itself, shortened. Secrets are hidden."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    if isinstance(value, str):
        return _describe_text(value)
    return str(value)


def _describe_text(text: str) -> str:
    if len(text) <= _LONGEST_SHOWN or (isinstance(text, Filled) and text.secret):
        return repr(text)
    return repr(text[: _LONGEST_SHOWN - 3] + "...")
