"""The types columns are made of. They see to it that every text and number a script can think of is stored, and that
SQLite and PostgreSQL give back the same."""

from __future__ import annotations

import hashlib
import math
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from curator_bench.codec import strict

_MOST_KEY_BYTES = 800
"""PostgreSQL refuses an index row of more than about 2,700 bytes, and three keys stand side by side in one."""
_DIGEST_LENGTH = 16


class Words(sa.TypeDecorator[str]):
    """Text of any length. What UTF-8 or PostgreSQL cannot hold (lone surrogates, NUL) is replaced."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return value if value is None or _is_plain(value) else _cleaned(value)


class Key(sa.TypeDecorator[str]):
    """Text that stands in an index: one that is too long for that is cut, and told from others by a digest."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else key(value)


class Number(sa.TypeDecorator[float]):
    """A figure. What is not a number, or not a finite one, is unknown."""

    impl = sa.Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        return None if value is None else finite(value)


class Moment(sa.TypeDecorator[datetime]):
    """A point in time: aware, in UTC. SQLite keeps it as text that sorts and that its date functions understand."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Document(sa.TypeDecorator[Any]):
    """Strict JSON: NaN and the infinities become texts, what JSON does not know becomes what it prints as."""

    impl = sa.JSON(none_as_null=True)
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else strict(value)


def key(text: str) -> str:
    """The text as it stands in a column of keys."""
    if _is_plain(text) and len(text) <= _MOST_KEY_BYTES:
        return text
    return _shortened(_cleaned(text))


def finite(value: float) -> float | None:
    """The number as a double; None where there is none for it."""
    try:
        number = float(value)
    except (OverflowError, TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _is_plain(text: str) -> bool:
    """Quick, and true of nearly all there is."""
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
