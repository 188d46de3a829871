"""Ctrl-C in a process that runs benchmarks. The first one stops the runs, a second one hurries the clean-up.

Work that must not be left half done is held: Ctrl-C then takes effect at its end. Without `heeded`, Ctrl-C is Python's
own, and holding is a no-op.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_AT_ONCE = 3
"""The number of Ctrl-C that also breaks work that is held, because it seems to hang."""


class _State:
    """The state of the signal handler, of which a process has one."""

    def __init__(self) -> None:
        self.asked = 0
        """How often Ctrl-C was pressed."""
        self.held = 0
        self.is_pending = False
        self.is_ending = False
        self.is_hurried = False


_state = _State()


@contextmanager
def heeded(*, is_worker: bool = False) -> Iterator[None]:
    """Handle Ctrl-C instead of Python. No-op if another handler is set or the signal is ignored, as with nohup.

    If the process ends with pytest, Ctrl-C is ignored after the block.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or not _is_main_thread():
        yield
        return
    global _state
    _state = _State()
    signal.signal(signal.SIGINT, _on_signal)
    if is_worker:
        unblock()
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is _on_signal:
            signal.signal(signal.SIGINT, signal.SIG_IGN if _ends_with_pytest() else signal.default_int_handler)


def give_back() -> None:
    """Restore Python's handler, unless Ctrl-C was pressed already."""
    if signal.getsignal(signal.SIGINT) is _on_signal and not _state.asked:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def block_while_workers_start() -> None:
    """Block Ctrl-C for workers that start, until they can handle it: their imports must not be interrupted."""
    if signal.getsignal(signal.SIGINT) is _on_signal:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def unblock() -> None:
    """Unblock Ctrl-C. If it was pressed in the meantime, it takes effect now."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _on_signal(number: int, frame: object) -> None:
    _state.asked += 1
    if _state.asked >= _AT_ONCE:
        raise KeyboardInterrupt
    if _state.asked > 1 or _state.is_ending:
        _state.is_hurried = True
        return
    if _state.held:
        _state.is_pending = True
        return
    raise KeyboardInterrupt


def end() -> None:
    """Note that only the clean-up is left, which Ctrl-C hurries but does not stop."""
    _state.is_ending = True


def was_asked() -> bool:
    return _state.asked > 0


def is_hurried() -> bool:
    """True if there should be no more waiting."""
    return _state.is_hurried


def hold() -> None:
    """Hold Ctrl-C back until the matching `release`."""
    _state.held += 1


def release() -> None:
    _state.held -= 1
    if not _state.held:
        raise_held_back()


def raise_held_back() -> None:
    """Let a Ctrl-C that was held back take effect now."""
    if _state.is_pending:
        _state.is_pending = False
        raise KeyboardInterrupt


@contextmanager
def held() -> Iterator[None]:
    """Hold Ctrl-C back until the end of the block."""
    hold()
    try:
        yield
    finally:
        release()


@contextmanager
def open_to_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C take effect within the block, even if it is held around it."""
    before, _state.held = _state.held, 0
    try:
        raise_held_back()
        yield
    finally:
        _state.held = before


def _ends_with_pytest() -> bool:
    """True under the command line's `pytest`, false if a program calls `pytest.main` and goes on."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name.endswith("console_main") and frame.f_globals.get("__name__") == "_pytest.config":
            return True
        frame = frame.f_back
    return False
