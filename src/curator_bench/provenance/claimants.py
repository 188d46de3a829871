"""The processes that run entries, as written in their claims and in the folder of a session's invocations."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from pathlib import Path

from curator_bench.files import safe_files
from curator_bench.files.codec import from_document, parsed
from curator_bench.measure.processes import identify
from curator_bench.provenance.environment import boot_id
from curator_bench.words import printable

INVOCATIONS = ".invocations"
SILENCE_S = 300.0
"""The claim of another machine is void when its file was not touched for this long."""
_LARGEST = 1 << 16


@dataclass(frozen=True, slots=True)
class Claimant:
    """A process that runs entries, as written in its claims."""

    invocation: str
    host: str
    boot_id: str
    pid: int
    process_start: float
    since: str

    @property
    def is_running(self) -> bool:
        """True if this is a process of this machine, and lives."""
        process = identify(self.pid) if self.boot_id == boot_id() else None
        return process is not None and process.started == self.process_start

    def __str__(self) -> str:
        return printable(f"process {self.pid} on {self.host}, since {self.since}")


def is_under_way(session_dir: Path) -> bool:
    """True if an invocation of the session lives. Unlike a claim this writes nothing, so it relies on the clocks."""
    folder = session_dir / INVOCATIONS
    try:
        names = safe_files.names_in(folder, below=session_dir)
    except OSError:
        return False
    return any(_lives(folder / name, session_dir) for name in names if name.endswith(".json"))


def _lives(file: Path, session_dir: Path) -> bool:
    try:
        text = safe_files.read_text(file, below=session_dir, most_bytes=_LARGEST)
        claimant = from_document(Claimant, parsed(text))
        if claimant.host == socket.gethostname():
            return claimant.is_running
        return time.time() - safe_files.time_of(file, below=session_dir) < SILENCE_S
    except (OSError, ValueError):
        return False
