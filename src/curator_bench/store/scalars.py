"""Conversion of any value to a number column and a text column, and back.

Numbers are in `value`. `text` adds what a double cannot say: a boolean (1 and `true`), an integer with more digits than
a double has, NaN and the infinities (no value, and their names), a text (no value, and itself).
"""

from __future__ import annotations

import json
import math
import numbers
from typing import Any

from curator_bench.files.codec import NOT_FINITE
from curator_bench.store.column_types import finite
from curator_bench.values import Scalar

_STARTS_OF_JSON = frozenset('"{[-0123456789tfnNI')


def value_and_text(scalar: Scalar) -> tuple[float | None, str | None]:
    """Convert a metric to its two columns."""
    if isinstance(scalar, float):
        return (scalar, None) if math.isfinite(scalar) else (None, text_of(scalar))
    if scalar is None:
        return None, None
    if isinstance(scalar, numbers.Integral) and not isinstance(scalar, bool):
        return _whole(int(scalar))
    number = finite(scalar) if isinstance(scalar, bool | numbers.Real) else None
    return number, text_of(scalar)


def scalar_of(value: float | None, text: str | None) -> Scalar:
    """Inverse of `value_and_text`. An integer that a double can hold comes back as a float."""
    if text is None:
        return value
    found = value_of(text)
    return found if isinstance(found, str | int | float | bool | None) else text


def text_of(value: Any) -> str | None:
    """Convert to text. A string stays as it is unless it looks like JSON; everything else becomes JSON."""
    if value is None:
        return None
    if isinstance(value, str) and (value in NOT_FINITE or not _is_json(value)):
        return value
    try:
        return json.dumps(value, default=str, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__}>"


def value_of(text: str | None) -> Any:
    """Inverse of `text_of`."""
    if text is None:
        return None
    return json.loads(text) if _is_json(text) else text


def _whole(number: int) -> tuple[float | None, str | None]:
    nearest = finite(number)
    return nearest, None if nearest == number else text_of(number)


def _is_json(text: str) -> bool:
    start = text.lstrip()[:1]
    if start not in _STARTS_OF_JSON or not start:
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
