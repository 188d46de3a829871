"""The files of the kernel in /proc and /sys, or a recorded copy of them. What cannot be read is empty, or None."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_LARGEST = 1 << 20


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


def read_small(path: str) -> bytes:
    """Return the content of a small file, at the least cost; empty if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _LARGEST)
    except OSError:  # the process has ended meanwhile
        return b""
    finally:
        os.close(descriptor)


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
