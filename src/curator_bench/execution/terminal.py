"""The terminal this process is in the foreground of. A program of ours may open its device and change its modes."""

from __future__ import annotations

import os
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_DEVICE = "/dev/tty"


class Terminal:
    """The modes of the terminal as they are now, to restore them later. No-op without a terminal."""

    def __init__(self) -> None:
        self._modes: list[Any] = []
        _in_foreground(self._note)

    def restore(self) -> None:
        """Restore the modes, and let output go on that was stopped: the next line would wait for ever."""
        if self._modes:
            _in_foreground(self._restore)

    def _note(self, terminal: int) -> None:
        self._modes = termios.tcgetattr(terminal)

    def _restore(self, terminal: int) -> None:
        termios.tcflow(terminal, termios.TCOON)
        if termios.tcgetattr(terminal) != self._modes:
            termios.tcsetattr(terminal, termios.TCSANOW, self._modes)


def _in_foreground(work: Callable[[int], None]) -> None:
    """Call `work` with the terminal, if we are in its foreground: others are stopped when they change it."""
    with suppress(OSError, termios.error):
        terminal = os.open(_DEVICE, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if os.tcgetpgrp(terminal) == os.getpgrp():
                work(terminal)
        finally:
            os.close(terminal)
