"""Open and decode files a script left behind. They may be missing, broken, huge, or not files at all.

The result is their content, or an `Unusable` with the reason. Nothing here hangs.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from curator_bench.files import safe_files
from curator_bench.files.folder_handles import NotUsable

MEBIBYTE = 2**20
_MOST_JSON_VALUES = 5_000_000
_NAMES_SHOWN = 3
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class Unusable(Exception):
    """The file cannot be used. The message continues its name: `metrics.json` + `is empty`."""


class Absent(Unusable):
    """The file does not exist."""

    def __init__(self) -> None:
        super().__init__("was not written")


@dataclass(frozen=True, slots=True)
class JsonObject:
    """Content of a JSON file, and warnings about oddities in it."""

    fields: dict[str, Any]
    warnings: tuple[str, ...] = ()


def open_regular_file(path: Path, below: Path | None) -> BinaryIO:
    """Open a file for reading. A link, folder, pipe or device is refused."""
    try:
        return safe_files.open_file(path, below=below)
    except FileNotFoundError:
        raise Absent from None
    except NotUsable as error:
        raise Unusable(error.strerror) from error
    except OSError as error:
        raise Unusable(f"cannot be opened: {error.strerror or error}") from error


def read_json_object(path: Path, *, most_bytes: int, below: Path | None = None) -> JsonObject:
    """Read the JSON object in a file of at most `most_bytes`. Raises Unusable (or Absent) if there is none."""
    return decode_json_object(_read_at_most(path, most_bytes, below))


def decode_json_object(encoded: bytes) -> JsonObject:
    """Decode the JSON object in these bytes. Raises Unusable if there is none."""
    oddities = _Oddities()
    try:
        content = oddities.decode(_text_of(encoded))
    except MemoryError:
        raise Unusable("does not fit into memory") from None
    if not isinstance(content, dict):
        raise Unusable(f"holds {_json_kind(content)}, not an object ({{…}})")
    return JsonObject(content, oddities.warnings())


def _read_at_most(path: Path, most_bytes: int, below: Path | None) -> bytes:
    with open_regular_file(path, below) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            content = file.read(most_bytes + 1)
        except OSError as error:
            raise Unusable(f"cannot be read: {error.strerror or error}") from error
    if len(content) > most_bytes:
        raise Unusable(
            f"is too large: {_megabytes(max(size, len(content)))}, at most {_megabytes(most_bytes)} are read"
        )
    return content


def _megabytes(size: int) -> str:
    return f"{size / MEBIBYTE:,.1f} MiB"


def _text_of(content: bytes) -> str:
    if not content.strip():
        raise Unusable("is empty")
    values_at_most = content.count(b",") + content.count(b"[") + content.count(b"{")
    if values_at_most > _MOST_JSON_VALUES:
        # Each value costs up to 80 bytes of the pytest process, whatever the size of the file.
        raise Unusable(f"holds more than {_MOST_JSON_VALUES:,} values")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unusable(f"is not UTF-8 (byte {error.start})") from None


@dataclass(slots=True)
class _Oddities:
    """JSON decoder that notes oddities the standard decoder ignores."""

    repeated: list[str] = field(default_factory=list)
    oversized: int = 0

    def decode(self, text: str) -> Any:
        try:
            return json.loads(text, object_pairs_hook=self._object, parse_int=self._integer)
        except json.JSONDecodeError as error:
            raise Unusable(_what_is_wrong(error)) from None
        except RecursionError:
            raise Unusable("is nested too deeply") from None

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            self.repeated += _repeated(pairs)
        return fields

    def _integer(self, text: str) -> int | float:
        nearest = float(text)
        if math.isinf(nearest):  # too large for any computation with floats
            self.oversized += 1
            return nearest
        return int(text)

    def warnings(self) -> tuple[str, ...]:
        found = []
        if self.repeated:
            found.append(f"has repeated names, of which the last counts: {some_of(self.repeated)}")
        if self.oversized:
            found.append(f"has {self.oversized:,} whole numbers beyond the range of a float, read as infinite")
        return tuple(found)


def _repeated(pairs: list[tuple[str, Any]]) -> list[str]:
    return [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]


def _what_is_wrong(error: json.JSONDecodeError) -> str:
    whole = error.doc.rstrip()
    breaks_off = error.pos >= len(whole) or error.msg.startswith("Unterminated string")
    what = "breaks off in the middle" if breaks_off else "is not valid JSON"
    return f"{what}: {error.msg} (line {error.lineno}, column {error.colno})"


def _json_kind(content: Any) -> str:
    names = {list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number", type(None): "null"}
    return names[type(content)]


def some_of(names: Sequence[str]) -> str:
    """Text of the first few names, for a message."""
    shown = ", ".join(clean_text(name)[:80] for name in names[:_NAMES_SHOWN])
    return shown if len(names) <= _NAMES_SHOWN else f"{shown} and {len(names) - _NAMES_SHOWN:,} more"


def clean_text(text: str) -> str:
    """Replace characters that databases and UTF-8 files cannot hold: lone surrogates and NUL."""
    return text.replace("\0", _REPLACEMENT).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
