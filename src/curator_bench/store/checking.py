"""Type checks for records read from files: each value must have the type its field declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from datetime import UTC, datetime
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

_MOST = 2**63 - 1
"""Largest integer a column can hold."""
_NAMES = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    datetime: "a time",
    Mapping: "an object",
    tuple: "a list",
}


def wrong_values(record: object, where: str = "") -> Iterator[str]:
    """Yield one message per value whose type does not match its field, in the record and the records inside it."""
    kind: Any = type(record)
    for name, kinds in _fields(kind).items():
        value = getattr(record, name)
        if not _fits(value, kinds):
            expected = " or ".join(_NAMES[kind] for kind in kinds if kind in _NAMES)
            yield f"{where}{name}: found {str(value)[:60]!r}, expected {expected}"
        for inner in value if isinstance(value, tuple) else (value,):
            if is_dataclass(inner):
                yield from wrong_values(inner, f"{where}{name}.")


@cache
def _fields(kind: type) -> Mapping[str, tuple[type, ...]]:
    return {name: tuple(_kinds(hint)) for name, hint in get_type_hints(kind).items()}


def _kinds(hint: Any) -> Iterator[type]:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        for part in get_args(hint):
            yield from _kinds(part)
    else:
        yield object if hint is Any else origin or hint


def _fits(value: object, kinds: tuple[type, ...]) -> bool:
    """True if the value fits one of the types. A bool is not an int here; an int is accepted as a float."""
    if isinstance(value, bool):
        return bool in kinds or object in kinds
    if isinstance(value, int) and float not in kinds and object not in kinds:
        return int in kinds and abs(value) <= _MOST
    if isinstance(value, datetime):
        return datetime in kinds and _has_its_like_in_utc(value)
    return isinstance(value, (*kinds, int) if float in kinds else kinds)


def _has_its_like_in_utc(moment: datetime) -> bool:
    try:
        moment.astimezone(UTC)
    except OverflowError:
        return False
    return True
