"""Checks that a sink class has methods with the right names. A misspelt method would never be called."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from difflib import get_close_matches
from types import FunctionType
from typing import Any

from curator_bench.sinks.sink import Sink

_CALLED = ("start_session", "run_started", "run_finished", "end_session")
_IN_TURN = "runs_finished"
"""A sink may define this method instead of `run_finished`."""
_NEAR = 0.85


def wrong_with(kind: type[Sink[Any]]) -> str:
    """Return what is wrong with the methods of a sink; empty if nothing is."""
    has = [name for name in (*_CALLED, _IN_TURN) if getattr(kind, name) is not getattr(Sink, name)]
    found = [*_misnamed(kind, [name for name in _CALLED if name not in has]), *_uncallable(kind, has)]
    if not has and not found:
        found = [f"has none of the methods of sinks: {', '.join(_CALLED)}"]
    return "; ".join(found)


def _misnamed(kind: type[Sink[Any]], missing: list[str]) -> Iterator[str]:
    """Yield methods whose names resemble a missing one. A sink that has the right method may have similar ones too."""
    words = {_in_words(name): name for name in missing}
    for name in _own_methods(kind):
        for near in get_close_matches(_in_words(name), words, 1, _NEAR):
            yield (
                f"has a method {name!r}, which is never called; did you mean {words[near]!r}? "
                f"If it is meant, call it {f'_{name}'!r}"
            )


def _own_methods(kind: type[Sink[Any]]) -> Iterator[str]:
    for name in dir(kind):
        if not name.startswith("_") and not hasattr(Sink, name) and callable(getattr(kind, name)):
            yield name


def _in_words(name: str) -> str:
    """Return the sorted words of a name, so that `onRunFinished`, `on_run_finished` and `finished_run` are equal."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")
    return " ".join(sorted(word for word in words if word not in ("", "on")))


def _uncallable(kind: type[Sink[Any]], names: list[str]) -> Iterator[str]:
    for name in names:
        method = inspect.getattr_static(kind, name)
        if inspect.iscoroutinefunction(method):
            yield f"has an async {name}; sinks are called on their own thread, and never awaited"
        elif isinstance(method, FunctionType) and not _takes_one(method):
            yield f"has {name}{inspect.signature(method)}, which is called with one argument: its message"


def _takes_one(method: FunctionType) -> bool:
    try:
        inspect.signature(method).bind(None, None)
    except TypeError:
        return False
    return True
