"""Lines at the bottom of a terminal that are redrawn once a second: what runs at this moment."""

from __future__ import annotations

import json
import os
import re
import threading
import time
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from curator_bench.words import readable_seconds

_EVERY_S = 1.0
_CLEAR = "\r\x1b[2K"
_UP_AND_CLEAR = "\x1b[1A\x1b[2K"
_LIKELY_COLUMNS = 80
_MOST_LINES = 8
_ESCAPE_SEQUENCE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[ -/]*[0-~])")


class LiveLines:
    """Draws on a thread of its own, but only between `resume` and `pause`: whoever else writes pauses it first."""

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
        """Takes the lines away; nothing is drawn until `resume`."""
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
        width = self._columns() - 1
        shown = [fit(line, width) for line in lines[:_MOST_LINES]]
        self._out.write("".join(line + "\n" for line in shown))
        self._out.flush()
        self._drawn = len(shown)

    def _clear(self) -> None:
        if self._drawn:
            self._out.write(_CLEAR + _UP_AND_CLEAR * self._drawn)  # where the cursor is, a ^C may have been echoed
            self._out.flush()
            self._drawn = 0

    def _columns(self) -> int:
        """Of this very terminal: standard output leads elsewhere meanwhile."""
        try:
            return os.get_terminal_size(self._out.fileno()).columns or _LIKELY_COLUMNS
        except OSError:
            return _LIKELY_COLUMNS


class Running:
    """What runs now, as one line each, from the status files of the runs."""

    def __init__(self, usual_s: Callable[[], Mapping[str, float]]) -> None:
        """`usual_s`: how long runs took before, by node id; asked once, by the thread that draws."""
        self._since: dict[str, tuple[float, Path]] = {}
        self._ask_usual_s = usual_s
        self._usual_s: Mapping[str, float] | None = None

    def begin(self, nodeid: str, directory: Path) -> None:
        self._since[nodeid] = (time.monotonic(), directory)

    def end(self, nodeid: str) -> None:
        self._since.pop(nodeid, None)

    def lines(self) -> list[str]:
        if self._usual_s is None:
            self._usual_s = self._ask_usual_s()
        return [self._line(nodeid, since, directory) for nodeid, (since, directory) in list(self._since.items())]

    def _line(self, nodeid: str, since: float, directory: Path) -> str:
        status = _read(directory / "status.json")
        usual = (self._usual_s or {}).get(nodeid)
        of = f" of about {readable_seconds(usual)}" if usual else ""
        state = "" if status.get("state") in (None, "running") else f" ({status['state']})"
        last = plain(str(status.get("last_line", "")))
        name = nodeid.partition("::")[2]
        return f"    ⏱ {name} {readable_seconds(time.monotonic() - since)}{of}{state}{f' │ {last}' if last else ''}"


def plain(text: str) -> str:
    """Without what would move the cursor or colour the rest: a script may print anything."""
    words = " ".join(_ESCAPE_SEQUENCE.sub("", text).split())
    return "".join(letter for letter in words if not unicodedata.category(letter).startswith("C"))


def fit(line: str, width: int) -> str:
    """As much of the line as there is room for: what wraps around could not be taken away again."""
    from rich.cells import set_cell_size

    return set_cell_size(line, width).rstrip()


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
