"""The line of a curated entry, character for character what json.dumps makes of it, but sooner.

A segment is in a dozen windows, and a window that is kept in two lists. Each is encoded once for all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Entry = dict[str, Any]

_encode: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False).encode
_BETWEEN = "\x01"  # a text that nobody writes
_MARK = ', "\\u0001", '
_LISTS = ("windows", "filtered_windows")
_WINDOW = ["segments", "speaker_durations"]


def line_of(entry: Entry) -> str:
    """The entry as a JSON object, with a line feed."""
    lists = {name: entry[name] for name in _LISTS if isinstance(entry.get(name), list)}
    texts = _texts_of_windows([window for windows in lists.values() for window in windows])
    others = {name: value for name, value in entry.items() if name not in lists}
    members = dict(zip(others, encoded(list(others.values())), strict=True))
    for name, windows in lists.items():
        members[name] = "[" + ", ".join([texts[id(window)] for window in windows]) + "]"
    return "{" + ", ".join([f"{_encode(name)}: {members[name]}" for name in entry]) + "}\n"


def _texts_of_windows(windows: Iterable[Any]) -> dict[int, str]:
    """By identity, which lasts as long as the entry."""
    unlike = {id(window): window for window in windows}
    built = {key: window for key, window in unlike.items() if _is_built(window)}
    segments = {id(segment): segment for window in built.values() for segment in window["segments"]}
    texts = dict(zip(segments, encoded(list(segments.values())), strict=True))
    durations = encoded([window["speaker_durations"] for window in built.values()])
    found = {key: _encode(window) for key, window in unlike.items() if key not in built}
    for (key, window), spoken in zip(built.items(), durations, strict=True):
        chosen = ", ".join(map(texts.__getitem__, map(id, window["segments"])))
        found[key] = f'{{"segments": [{chosen}], "speaker_durations": {spoken}}}'
    return found


def _is_built(window: Any) -> bool:
    """True of windows as the builder makes them."""
    return isinstance(window, dict) and list(window) == _WINDOW and isinstance(window["segments"], list)


def encoded(values: Sequence[Any]) -> list[str]:
    """Each of them on its own, at the cost of one call of the encoder; where they hold the mark, one by one."""
    if not values:
        return []
    marked = [part for value in values for part in (value, _BETWEEN)]
    texts = _encode(marked[:-1])[1:-1].split(_MARK)
    return texts if len(texts) == len(values) else [_encode(value) for value in values]
