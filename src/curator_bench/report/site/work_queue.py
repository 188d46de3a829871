"""The parts of a build that are left: an entry, a session, or a pair of sessions, each with its page and its data.

They are done in their order, a few of a kind together. A part that somebody waits for is done next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, TypeAlias, TypeVar

Act: TypeAlias = Callable[[Sequence[Any]], None]
Progress: TypeAlias = Callable[[int, int], None]
Asked: TypeAlias = Callable[[], Sequence[str]]
Item = TypeVar("Item")

_NAMES = {"entries": 2, "sessions": 2, "compared": 3}
"""How many parts of a path name a part of a build, by the first one."""


def part_of(file: str) -> str:
    """Return the name of the part of a build that writes this file; empty for the lists and the overview."""
    names = file.removeprefix("data/").removesuffix(".html").removesuffix(".js").split("/")
    length = _NAMES.get(names[0])
    return "/".join(names[:length]) if length and len(names) >= length else ""


class WorkQueue:
    """The parts that are left."""

    def __init__(self, progress: Progress, asked: Asked, at_once: int) -> None:
        """`asked` returns files that are waited for; up to `at_once` parts of a kind are done together."""
        self._progress, self._asked, self._at_once = progress, asked, at_once
        self._left: dict[str, tuple[Act, Any]] = {}
        self._urgent: list[str] = []
        self._added = 0

    def add(self, part: str, act: Callable[[Sequence[Item]], None], item: Item) -> None:
        self._left[part] = act, item
        self._added += 1

    def do_all(self) -> None:
        """Do all that is left."""
        while self._left:
            self._progress(self._added - len(self._left), self._added)
            act, some = self._next()
            act([self._left.pop(part)[1] for part in some])

    def _next(self) -> tuple[Act, Sequence[str]]:
        self._urgent += map(part_of, self._asked())
        while self._urgent:
            newest = self._urgent.pop()
            if newest in self._left:
                return self._left[newest][0], [newest]
        act, _ = next(iter(self._left.values()))
        return act, [part for part, (own, _) in islice(self._left.items(), self._at_once) if own == act]
