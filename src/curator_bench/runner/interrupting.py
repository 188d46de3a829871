"""Ctrl-C in a session of benchmarks: runs are recorded whole, and the session ends in order."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from types import FunctionType
from typing import NoReturn

import pytest

from curator_bench import interrupts
from curator_bench.collection.items import UNJUDGED, entry_of
from curator_bench.values import Place, Verdict

_HELD = pytest.StashKey[bool]()
"""True while an item holds Ctrl-C back."""


class InterruptHooks:
    """Hooks of every session of benchmarks."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        entry = entry_of(item)
        try:
            return (yield from _protocol(item))
        except KeyboardInterrupt:
            if entry is None:
                raise
            _raise_at(entry.place)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        found = yield
        interrupts.end()
        return found

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, object, object]:
        interrupts.end()
        found = yield
        if interrupts.was_asked() and exitstatus != pytest.ExitCode.INTERRUPTED:
            session.exitstatus = pytest.ExitCode.INTERRUPTED
            terminal = session.config.pluginmanager.get_plugin("terminalreporter")
            if terminal is not None:
                terminal.write_sep("!", "Ctrl-C while the session was ending")
        return found


def _protocol(item: pytest.Item) -> Generator[None, object, object]:
    try:
        return (yield)
    except (KeyboardInterrupt, pytest.exit.Exception):
        _note_unjudged(item)
        raise
    finally:
        release_hold(item)


def _interrupt() -> NoReturn:
    raise KeyboardInterrupt


def _raise_at(place: Place) -> NoReturn:
    """Raise KeyboardInterrupt as if at a place of a matrix, because pytest shows where it was raised."""
    line_before = max(place.line, 1) - 1
    code = _interrupt.__code__.replace(co_filename=place.file, co_firstlineno=line_before)
    FunctionType(code, {"KeyboardInterrupt": KeyboardInterrupt})()
    raise AssertionError("unreachable")


def _note_unjudged(item: pytest.Item) -> None:
    """Record a run whose test ended before it judged the run."""
    if UNJUDGED in item.stash:
        from curator_bench.runner.run_records import note_interrupted

        entry, result = item.stash[UNJUDGED]
        del item.stash[UNJUDGED]
        note_interrupted(item, entry, replace(result, verdict=Verdict.INTERRUPTED, error="stopped from outside"))


def hold_until_the_end(item: pytest.Item) -> None:
    """Hold Ctrl-C back until the row is complete. The run itself may still be stopped."""
    if _HELD not in item.stash:
        item.stash[_HELD] = True
        interrupts.hold()


def release_hold(item: pytest.Item) -> None:
    if item.stash.get(_HELD, False):
        del item.stash[_HELD]
        interrupts.release()
