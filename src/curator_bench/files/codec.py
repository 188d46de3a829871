"""Conversion to and from strict JSON of numbers, times, enums and dataclasses.

JSON has no NaN and no infinities. All our files use the texts "NaN", "Infinity" and "-Infinity" instead.
"""

from __future__ import annotations

import dataclasses
import json
import math
import numbers
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Value = TypeVar("_Value", bound="DataclassInstance")
_Reader = Callable[[Any], Any]

NOT_FINITE: Mapping[str, float] = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Numbers that JSON lacks, by the texts that stand for them."""
_LONGEST_SHOWN = 60
_MOST_VALUES = 10_000_000
"""Each value costs up to 80 bytes of memory, and may need only two in the file."""
_NAMES: Mapping[type, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    datetime: "a time",
}


def strict(value: Any) -> Any:
    """Convert a value to types that strict JSON can hold. An unknown type becomes text."""
    kind = type(value)
    if kind in (str, int, bool, NoneType):
        return value
    if kind is float:
        return value if math.isfinite(value) else text_of(value)
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): strict(item) for name, item in value.items()}
    if dataclasses.is_dataclass(value):
        return _fields(value)
    if isinstance(value, numbers.Real):  # numpy's numbers are neither int nor float
        return int(value) if isinstance(value, numbers.Integral) else strict(float(value))
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _fields(value: Any) -> dict[str, Any]:
    found = {}
    for name, unwritten in _written(value.__class__):
        item = getattr(value, name)
        if unwritten is _ALWAYS or item != unwritten:
            found[name] = strict(item)
    return found


def text_of(number: float) -> str:
    """Text that stands for NaN or an infinity."""
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def number_of(value: Any) -> Any:
    """Number that a text stands for; any other value unchanged."""
    return NOT_FINITE.get(value, value) if isinstance(value, str) else value


def parsed(text: str | bytes) -> Any:
    """Parse JSON of any origin. Raises ValueError, also if it is nested too deeply or holds too many values."""
    marks: Any = (",", "[", "{") if isinstance(text, str) else (b",", b"[", b"{")
    if len(text) > _MOST_VALUES and sum(map(text.count, marks)) > _MOST_VALUES:
        raise ValueError(f"more than {_MOST_VALUES:,} values")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def json_text(value: Any) -> str:
    """Text of a whole JSON file, indented for people. Bytes of a path or a name that are not UTF-8 become `?`."""
    text = json.dumps(strict(value), indent=2, ensure_ascii=False) + "\n"
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def json_line(value: Any) -> bytes:
    """One line of strict JSON, encoded."""
    return (json.dumps(strict(value), ensure_ascii=False) + "\n").encode("utf-8", "replace")


def to_document(value: DataclassInstance) -> dict[str, Any]:
    """Convert a dataclass to builtin types. Fields marked WHERE_SAID are omitted if they have their default value."""
    document: dict[str, Any] = strict(value)
    return document


def from_document(kind: type[_Value], document: Any) -> _Value:
    """Inverse of `to_document`; unknown names are ignored.

    Raises ValueError that lists all values without the type of their field.
    """
    found: _Value = _reader(kind)(document)
    return found


@cache
def _written(kind: Any) -> tuple[tuple[str, Any], ...]:
    """Names of a dataclass's fields, each with the value that is omitted."""
    return tuple((field.name, _default(field)) for field in dataclasses.fields(kind))


def _default(field: dataclasses.Field[Any]) -> Any:
    if not field.metadata.get("where_said"):
        return _ALWAYS
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


_ALWAYS = object()


class _Wrong(ValueError):
    """Values of the wrong type, by their place."""

    def __init__(self, found: Mapping[str, str]) -> None:
        super().__init__(", ".join(f"{where}: {problem}" if where else problem for where, problem in found.items()))
        self.found = found


@cache
def _reader(hint: Any) -> _Reader:
    """Build the function that converts JSON to this type."""
    if hint is Any or hint is object:
        return lambda value: value
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _union_reader(get_args(hint))
    if origin is tuple:
        return _list_reader(_reader(get_args(hint)[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_reader(get_args(hint)[1])
    if dataclasses.is_dataclass(hint):
        return _object_reader(hint)
    if issubclass(hint, Enum):
        return lambda value: hint(value)
    return _moment if hint is datetime else _scalar_reader((hint,))


def _union_reader(kinds: tuple[Any, ...]) -> _Reader:
    """Build the reader of a union: of scalars, or of one type and None."""
    plain = tuple(kind for kind in kinds if kind is not NoneType)
    if all(kind in (str, int, float, bool) for kind in plain):
        return _scalar_reader(kinds)
    assert len(plain) == 1, plain
    read = _reader(plain[0])
    return lambda value: None if value is None else read(value)


def _scalar_reader(kinds: tuple[type, ...]) -> _Reader:
    """Build the reader of scalars.

    A text that stands for a number counts as one where a float may be; so does an integer.
    """
    exact = frozenset(kinds)
    if float not in exact:
        return lambda value: value if type(value) in exact else _refuse(value, kinds)
    allowed = exact | {int}

    def read(value: Any) -> Any:
        if type(value) is str:
            value = NOT_FINITE.get(value, value)
        return value if type(value) in allowed else _refuse(value, kinds)

    return read


def _list_reader(read: _Reader) -> _Reader:
    def read_all(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise _Wrong({"": f"found {_shown(value)}, expected a list"})
        return tuple(map(read, value))

    return read_all


def _mapping_reader(hint: Any) -> _Reader:
    read = _reader(hint)

    def read_all(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _Wrong({"": f"found {_shown(value)}, expected an object"})
        return {name: read(item) for name, item in value.items()}

    return read_all


def _object_reader(kind: Any) -> _Reader:
    hints = get_type_hints(kind)
    own = frozenset(field.name for field in dataclasses.fields(kind))
    unsaid = [field.name for field in dataclasses.fields(kind) if _has_no_default(field)]
    optional = {name: None for name in unsaid if NoneType in get_args(hints[name])}
    required = frozenset(unsaid) - optional.keys()

    readers: dict[str, _Reader] = {}
    """Built on first use, because a type may contain itself."""

    def read(document: Any) -> Any:
        if not isinstance(document, Mapping):
            raise _Wrong({"": f"found {_shown(document)}, expected an object"})
        wrong = dict.fromkeys(sorted(required - document.keys()), "missing")
        values: dict[str, Any] = dict(optional)
        for name, value in document.items():
            if name in own:
                reader = readers.get(name) or readers.setdefault(name, _reader(hints[name]))
                try:
                    values[name] = reader(value)
                except _Wrong as problem:
                    wrong |= {f"{name}.{where}" if where else name: said for where, said in problem.found.items()}
                except ValueError as error:
                    wrong[name] = str(error)
        if wrong:
            raise _Wrong(wrong)
        return kind(**values)

    return read


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _moment(value: Any) -> datetime:
    """Read a time; one without a zone is in UTC."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        _refuse(value, (datetime,))
    found: datetime = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return found


def _refuse(value: Any, kinds: tuple[type, ...]) -> NoReturn:
    expected = " or ".join(_NAMES[kind] for kind in kinds if kind in _NAMES)
    raise _Wrong({"": f"found {_shown(value)}, expected {expected}"})


def _shown(value: Any) -> str:
    return repr(str(value)[:_LONGEST_SHOWN])
