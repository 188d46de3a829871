"""status.json: the live state of a run, renamed into place once a second."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from curator_bench.execution.directories import Directories
from curator_bench.files.json_files import tail, write_json
from curator_bench.masking import Mask
from curator_bench.measure.schedule import Job, Schedule
from curator_bench.values import Verdict

_EVERY_S = 1.0
_SHARE_OF_A_CORE = 0.002
_LONGEST_LINE = 200
_LINES = 100
"""The number of lines to mask.

It exceeds what is shown, because a secret of several lines is recognised only as a whole.
"""


class Status:
    """Writer of a run's status, on the thread that samples."""

    def __init__(self, entry_dir: Path, directories: Directories, name: str, mask: Mask, schedule: Schedule) -> None:
        """Set up the status. `directories` are those of the attempt."""
        self._path = entry_dir / "status.json"
        self._directories = directories
        self._schedule = schedule
        self._mask = mask
        self._began = time.monotonic()
        self._facts: dict[str, Any] = {"name": name, "host": socket.gethostname(), "pid": os.getpid()}
        self._log: Path | None = None
        self._job = Job("writing status.json", self._write_or_not, lambda _: _EVERY_S, _SHARE_OF_A_CORE)

    def start(self) -> None:
        self._schedule.add(self._job)

    def now(self, state: str, log: Path | None = None, **facts: Any) -> None:
        """Set what the run does now, and the log whose last line shows its progress."""
        self._facts.update(facts, state=state)
        self._log = log

    def stop(self, verdict: Verdict) -> None:
        """Write the final status. A passed verdict is left open until the requirements are judged."""
        self._schedule.remove(self._job)
        self.now("ended", self._log, verdict=None if verdict is Verdict.PASSED else verdict)
        self._write()

    def _write_or_not(self) -> None:
        """Write the status and ignore a full disk, which is reported at the end if it persists."""
        with suppress(OSError):
            self._write()

    def _write(self) -> None:
        lines = tail(self._log, _LINES, 16_384, below=self._directories.large_below) if self._log else ()
        shown = self._mask.hide_lines(lines)
        last_line = shown[-1][:_LONGEST_LINE] if shown else ""
        write_json(
            self._path,
            {**self._facts, "elapsed_s": round(time.monotonic() - self._began, 1), "last_line": last_line},
            below=self._directories.below,
        )
