"""Reads a log as it grows, a piece at a time. No link is followed, and nothing is waited for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from curator_bench.files import safe_files
from curator_bench.files.folder_handles import NotUsable
from curator_bench.masking import without_escape_sequences
from curator_bench.words import printable

LOG = "stdouterr.log"
_LOGS = "logs"
_NUMBERED = ("repeat_", "warmup_", "attempt_")
_PIECE = 256 * 1024
_LONGEST_OPEN_LINE = 64 * 1024
_LONGEST_LINE = 2000


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A log, and the trusted folder above it below which no link is followed."""

    path: Path
    below: Path


@dataclass(frozen=True, slots=True)
class LogPiece:
    """The part of a log after a position."""

    position: str
    """The position of the next piece, which also names the file."""
    lines: tuple[str, ...]
    """Whole lines."""
    open_line: str
    """The last line, if it has no end yet. The next piece has it again."""
    is_new: bool
    """True if this is another file than before, or it became shorter."""
    skipped: int
    """The number of bytes in front of the piece that were left out."""
    why_not: str = ""
    """Why there is nothing to read."""


def log_place(folder: Path, session_dir: Path) -> LogPlace | None:
    """Return the log of one execution, whose `logs` may be a link that we made for `artifacts_dir`."""
    logs = folder / _LOGS
    if safe_files.kind_of(logs, below=session_dir) != "link":
        return LogPlace(logs / LOG, session_dir)
    target = Path(os.readlink(logs))
    own = (session_dir.name, *logs.relative_to(session_dir).parts)
    if not target.is_absolute() or target.parts[-len(own) :] != own:
        return None
    return LogPlace(target / LOG, Path(*target.parts[: -len(own)]))


def newest_log(entry_dir: Path, session_dir: Path) -> tuple[Path, LogPlace] | None:
    """Return the execution of an entry that wrote last, and its log."""
    found = []
    for folder in _executions(entry_dir, session_dir):
        place = log_place(folder, session_dir)
        if place is not None:
            try:
                found.append((safe_files.time_of(place.path, below=place.below), str(folder), place))
            except OSError:
                continue
    if not found:
        return None
    _, folder_name, place = max(found, key=lambda one: one[:2])
    return Path(folder_name), place


def _executions(folder: Path, session_dir: Path, depth: int = 2) -> Iterator[Path]:
    """Yield the folders of the executions of an entry: its own, those of repeats, and of further attempts."""
    yield folder
    try:
        names = safe_files.names_in(folder, below=session_dir) if depth else []
    except OSError:
        return
    for name in names:
        if name.startswith(_NUMBERED) and safe_files.kind_of(folder / name, below=session_dir) == "folder":
            yield from _executions(folder / name, session_dir, depth - 1)


def read_on(place: LogPlace, position: str = "") -> LogPiece:
    """Read what a log has beyond a position, at most the last 256 KiB of it."""
    try:
        with safe_files.open_file(place.path, below=place.below) as file:
            found = os.fstat(file.fileno())
            name = f"{found.st_dev:x}.{found.st_ino:x}"
            known, _, number = position.partition(":")
            begun = int(number) if known == name and number.isdecimal() else -1
            is_new = not 0 <= begun <= found.st_size
            wanted = 0 if is_new else begun
            start = max(wanted, found.st_size - _PIECE)
            file.seek(start)
            content = file.read(_PIECE)
    except FileNotFoundError:
        return LogPiece("", (), "", True, 0, "There is no log yet.")
    except NotUsable as error:
        return LogPiece("", (), "", True, 0, f"The log {error.strerror}.")
    except OSError as error:
        return LogPiece("", (), "", True, 0, f"The log cannot be read: {error.strerror}.")
    end = _end_of_lines(content)
    lines = (
        tuple(map(shown_line, content[:end].decode("utf-8", "replace").removesuffix("\n").split("\n"))) if end else ()
    )
    open_line = shown_line(content[end:].decode("utf-8", "replace"))
    return LogPiece(f"{name}:{start + end}", lines, open_line, is_new, start - wanted)


def _end_of_lines(content: bytes) -> int:
    """Return where the last whole line ends. A line without end that is too long counts as one."""
    end = content.rfind(b"\n") + 1
    return len(content) if len(content) - end > _LONGEST_OPEN_LINE else end


def shown_line(line: str) -> str:
    """Return what a terminal would show of a line: without colours, and the last state of a line that was redrawn."""
    line = line.rstrip("\r").rpartition("\r")[2]
    line = without_escape_sequences(line.replace("\0", "")).expandtabs()
    return printable(line[:_LONGEST_LINE]) + ("…" if len(line) > _LONGEST_LINE else "")
