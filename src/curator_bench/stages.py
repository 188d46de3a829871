"""Stages that a script or a test names: `with curator_bench.stage("tokenize"):`.

In a script that the bench runs, each stage appends a line to the file that `STAGES_FILE` names; in a test, a listener
takes it. Where nobody listens, a stage does nothing. This module is imported by scripts: standard library only, and
little of it.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

STAGES_FILE = "CURATOR_BENCH_STAGES"
"""Variable with the path of the file that a script's stages are appended to."""
LONGEST_NAME = 250
MOST_NAMES = 500
MOST_BYTES = 16 * 2**20
"""Size of the file at which no further lines are written."""
_AT_ONCE = 100
"""Number of times that each use of a stage is written at once. Then lines of a stage are `_EVERY_S` apart at least."""
_EVERY_S = 0.1
_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200
"""Flags of a function's code."""


class Listener(Protocol):
    """Takes the stages of this process as they end."""

    def ended(self, name: str, began: float, ended: float, own_s: float, failed: bool) -> None:
        """Take one use of a stage: when it began and ended (`time.monotonic`), and its time without inner stages."""


class stage:  # noqa: N801  used as a word: `with stage("tokenize"):`
    """Name a part of a benchmark, whose time is recorded: as a block or as a decorator.

        with curator_bench.stage("tokenize"):
            ...

    It may be nested, repeated and used in threads. An outer stage is recorded without the time of the stages in it.
    """

    def __init__(self, name: str) -> None:
        self._name = str(name)[:LONGEST_NAME]

    def __enter__(self) -> stage:
        listener = _listening()
        if listener is not None:
            _inside.set(_Use(self, listener, _inside.get()))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        use = _inside.get()
        if use is None or use.stage is not self:  # nobody listened when it began
            return
        ended = time.monotonic()
        _inside.set(use.outer)
        if use.outer is not None:
            use.outer.inner_s += ended - use.began
        use.listener.ended(self._name, use.began, ended, max(0.0, ended - use.began - use.inner_s), kind is not None)

    def __call__(self, function: _Function) -> _Function:
        flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
        if flags & (_GENERATOR | _ASYNC_GENERATOR):
            raise TypeError("stage() cannot measure a generator from outside: use `with stage(…):` inside it")
        name = self._name

        async def awaited(*args: Any, **options: Any) -> Any:
            with stage(name):
                return await function(*args, **options)

        def called(*args: Any, **options: Any) -> Any:
            with stage(name):
                return function(*args, **options)

        measured: Any = functools.wraps(function)(awaited if flags & _COROUTINE else called)
        return measured  # type: ignore[no-any-return]


class _Use:
    """One use of a stage, in progress."""

    __slots__ = ("began", "inner_s", "listener", "outer", "stage")

    def __init__(self, stage: stage, listener: Listener, outer: _Use | None) -> None:
        self.stage = stage
        self.listener = listener
        self.outer = outer
        self.inner_s = 0.0
        self.began = time.monotonic()


_inside: ContextVar[_Use | None] = ContextVar("curator_bench_stage", default=None)
"""The innermost stage of this thread or asyncio task."""


class _Listening:
    """Return the listener of this process: one of ours, or the file of the run it belongs to."""

    def __init__(self) -> None:
        self.here: Listener | None = None
        self.file: _File | None = None
        self.pid = 0


_who = _Listening()


def _listening() -> Listener | None:
    if _who.here is not None:
        return _who.here
    if _who.pid != os.getpid():  # at first use, and in a forked process
        path = os.environ.get(STAGES_FILE)
        _who.file, _who.pid = _File(path) if path else None, os.getpid()
    return _who.file


def listen(listener: Listener | None) -> None:
    """Hand the stages of this process to a listener from now on; None ends that."""
    _who.here = listener


class _Sum:
    """Uses of one stage that are not written yet."""

    __slots__ = ("began", "count", "ended", "failures", "own_s", "uses", "written_at")

    def __init__(self) -> None:
        self.uses = 0
        self.written_at = 0.0
        self.clear()

    def clear(self) -> None:
        self.count = self.failures = 0
        self.own_s = 0.0
        self.began = self.ended = 0.0

    def add(self, began: float, ended: float, own_s: float, failed: bool) -> None:
        self.began = min(self.began, began) if self.count else began
        self.ended = max(self.ended, ended)
        self.own_s += own_s
        self.count += 1
        self.failures += failed
        self.uses += 1


class _File:
    """The file of a run. Each line is written at once, so that a killed script loses a tenth of a second at most."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._sums: dict[str, _Sum] = {}
        self._written = 0
        self._descriptor: int | None = None
        atexit.register(self._flush)

    def ended(self, name: str, began: float, ended: float, own_s: float, failed: bool) -> None:
        with self._lock:
            found = self._sums.get(name)
            if found is None:
                if len(self._sums) > MOST_NAMES:  # one more than are kept, so that the reader notices
                    return
                found = self._sums[name] = _Sum()
            if found.count and began - found.ended >= _EVERY_S:  # a line is no longer than its stage and a little
                self._write(name, found, ended)
            found.add(began, ended, own_s, failed)
            if found.uses <= _AT_ONCE or ended - found.written_at >= _EVERY_S:
                self._write(name, found, ended)

    def _flush(self) -> None:
        if _who.file is self and _who.pid == os.getpid():
            with self._lock:
                for name, found in self._sums.items():
                    if found.count:
                        self._write(name, found, found.ended)

    def _write(self, name: str, found: _Sum, now: float) -> None:
        said = [name, found.count, found.failures, found.own_s, found.began, found.ended, os.getpid()]
        found.clear()
        found.written_at = now
        line = (json.dumps(said) + "\n").encode("ascii")
        if self._written + len(line) > MOST_BYTES:
            return
        self._written += len(line)
        try:
            if self._descriptor is None:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                self._descriptor = os.open(self._path, flags, 0o666)
            os.write(self._descriptor, line)
        except OSError:  # a benchmark goes on without its stages
            self._written = MOST_BYTES
