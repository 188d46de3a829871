"""Live lines at the bottom of a terminal, redrawn once a second: the runs in progress."""

from __future__ import annotations

import os
import threading
import unicodedata
from collections.abc import Callable
from typing import TextIO

from curator_bench.masking import without_escape_sequences

_EVERY_S = 1.0
_CLEAR = "\r\x1b[2K"
_UP_AND_CLEAR = "\x1b[1A\x1b[2K"
_LIKELY_SIZE = os.terminal_size((80, 24))
_MOST_LINES = 40
_MARGIN = 4
"""Rows of the screen that stay free, because lines that scroll off the top could not be cleared."""


class LiveLines:
    """Redraws the lines on a thread of its own, between `resume` and `pause`. Other output must pause it first."""

    def __init__(self, out: TextIO, lines: Callable[[], list[str]]) -> None:
        self._out = out
        self._lines = lines
        self._drawn = 0
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._paused = True
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="curator-bench live lines", daemon=True)
        self._thread.start()

    def resume(self) -> None:
        with self._lock:
            self._paused = False
        self._wake.set()

    def pause(self) -> None:
        """Clear the lines. Nothing is drawn until `resume`."""
        with self._lock:
            self._paused = True
            self._clear()

    def close(self) -> None:
        self.pause()
        self._closed = True
        self._wake.set()
        self._thread.join(2)
        self._out.close()

    def _run(self) -> None:
        while not self._closed:
            self._wake.wait(_EVERY_S)
            self._wake.clear()
            lines = [] if self._paused else self._lines()
            with self._lock:
                if not self._paused:
                    self._draw(lines)

    def _draw(self, lines: list[str]) -> None:
        self._clear()
        size = self._size()
        shown = [fit(line, size.columns - 1) for line in _few(lines, min(_MOST_LINES, size.lines - _MARGIN))]
        self._out.write("".join(line + "\n" for line in shown))
        self._out.flush()
        self._drawn = len(shown)

    def _clear(self) -> None:
        if self._drawn:
            self._out.write(_CLEAR + _UP_AND_CLEAR * self._drawn)  # a ^C may have been echoed on the cursor's line
            self._out.flush()
            self._drawn = 0

    def _size(self) -> os.terminal_size:
        """Return the size of this terminal, because standard output may be redirected."""
        try:
            size = os.get_terminal_size(self._out.fileno())
        except OSError:
            return _LIKELY_SIZE
        return size if size.columns and size.lines else _LIKELY_SIZE


def _few(lines: list[str], most: int) -> list[str]:
    """Return the first lines, at least one, and a line with the number of those left out."""
    most = max(2, most)
    return lines if len(lines) <= most else [*lines[: most - 1], f"    … and {len(lines) - most + 1} more"]


def plain(text: str) -> str:
    """Remove escape sequences and control characters, since a script may print anything."""
    words = " ".join(without_escape_sequences(text).split())
    return "".join(letter for letter in words if not unicodedata.category(letter).startswith("C"))


def fit(line: str, width: int) -> str:
    """Cut the line to the width, because a wrapped line could not be cleared."""
    from rich.cells import set_cell_size

    return set_cell_size(line, width).rstrip()
