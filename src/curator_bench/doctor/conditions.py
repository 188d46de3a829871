"""The answers of the doctor: one for each property of a machine. Also reads the files of the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class State(StrEnum):
    """The meaning of a condition for benchmarks."""

    GOOD = "good"
    WARNING = "warning"
    """Times scatter or are not those of the machine at its best, or larger runs may fail."""
    MISSING = "missing"
    """Entries ask for it, and cannot have it here."""
    UNKNOWN = "unknown"
    """It cannot be read here."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One property of the machine."""

    name: str
    state: State
    found: str
    cost: str = ""
    """The price for those who measure here; empty if it is good or unknown."""
    remedy: str = ""
    """The command, or the setting, that mends it."""


def good(name: str, found: str) -> Condition:
    return Condition(name, State.GOOD, found)


def warning(name: str, found: str, cost: str, remedy: str) -> Condition:
    return Condition(name, State.WARNING, found, cost, remedy)


def missing(name: str, found: str, cost: str, remedy: str) -> Condition:
    return Condition(name, State.MISSING, found, cost, remedy)


def unknown(name: str, found: str) -> Condition:
    return Condition(name, State.UNKNOWN, found)


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of the kernel: /proc and /sys, or a copy of them below another folder."""

    root: Path = Path("/")

    def text(self, path: str) -> str:
        """Return the text of a file without the blanks around it; empty if it cannot be read."""
        try:
            return (self.root / path).read_text(errors="replace").strip()
        except OSError:
            return ""

    def number(self, path: str) -> int | None:
        return _number(self.text(path))

    def texts(self, pattern: str) -> list[str]:
        """Return the texts of all readable files of a pattern, in the order of their paths."""
        paths = sorted(str(path.relative_to(self.root)) for path in self.root.glob(pattern))
        return [text for path in paths if (text := self.text(path))]

    def numbers(self, pattern: str) -> list[int]:
        return [number for text in self.texts(pattern) if (number := _number(text)) is not None]

    def table(self, path: str) -> dict[str, int]:
        """Return the numbers of a file with a name and a number on each line, such as /proc/meminfo."""
        return dict(_rows(self.text(path)))


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _rows(text: str) -> Iterator[tuple[str, int]]:
    for line in text.splitlines():
        words = line.replace(":", " ").split()
        if len(words) >= 2 and (number := _number(words[1])) is not None:
            yield words[0], number
