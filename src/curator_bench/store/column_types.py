"""Column types.

They store any text or number a script can produce, and make SQLite and PostgreSQL return the same value.
"""

from __future__ import annotations

import hashlib
import math
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from curator_bench.files.codec import strict

_MOST_KEY_BYTES = 800
"""Limit for one key. PostgreSQL refuses an index row over about 2,700 bytes, and an index has up to three keys."""
_DIGEST_LENGTH = 16


class Words(sa.TypeDecorator[str]):
    """Text of any length. Characters that UTF-8 or PostgreSQL cannot hold (lone surrogates, NUL) are replaced."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return value if value is None or _is_plain(value) else _cleaned(value)


class Key(sa.TypeDecorator[str]):
    """Text in an index. A text that is too long is cut, and a digest keeps it unique."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else key(value)


class Number(sa.TypeDecorator[float]):
    """A float. Values that are not finite numbers are stored as NULL."""

    impl = sa.Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        return None if value is None else finite(value)


class Moment(sa.TypeDecorator[datetime]):
    """An aware time in UTC. SQLite stores it as text that sorts, and that its date functions understand."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Document(sa.TypeDecorator[Any]):
    """Strict JSON. NaN and the infinities become texts; objects unknown to JSON become their `str`."""

    impl = sa.JSON(none_as_null=True)
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else strict(value)


def key(text: str) -> str:
    """Convert a text to the form it has in a key column."""
    if _is_plain(text) and len(text) <= _MOST_KEY_BYTES:
        return text
    return _shortened(_cleaned(text))


def finite(value: float) -> float | None:
    """Convert to a finite float; None if that is not possible."""
    try:
        number = float(value)
    except (OverflowError, TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _is_plain(text: str) -> bool:
    """True if the text needs no cleaning. A quick test that nearly all texts pass."""
    return text.isascii() and "\0" not in text


def _cleaned(text: str) -> str:
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _shortened(text: str) -> str:
    whole = text.encode("utf-8")
    if len(whole) <= _MOST_KEY_BYTES:
        return text
    digest = hashlib.sha256(whole).hexdigest()[:_DIGEST_LENGTH]
    kept = whole[: _MOST_KEY_BYTES - _DIGEST_LENGTH - 3].decode("utf-8", "ignore")
    return f"{kept}...{digest}"


def kind_of(column_type: Any) -> type[int] | type[float] | type[str]:
    """Return what a column of a run holds, for a test that sets it."""
    if isinstance(column_type, sa.Integer):
        return int
    return float if isinstance(column_type, Number) else str
