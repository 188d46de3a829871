"""Files in /dev/shm that processes of a run made and, being killed, cannot remove."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from curator_bench.cluster.shared_memory import files_mapped_by, remove_unused

_FOLDER = Path("/dev/shm")


class Segments:
    """Made before the run: what is there by then (a dataset that somebody put into memory) is not the run's."""

    def __init__(self, before: frozenset[Path] | None = None) -> None:
        self._before = files_there() if before is None else before
        self._mapped: frozenset[Path] = frozenset()

    def note(self, pids: Iterable[int]) -> None:
        """To be told which processes will be killed while they live."""
        self._mapped |= files_mapped_by(pids) - self._before

    def remove(self) -> None:
        """To be called when they have ended. What others map by now stays."""
        remove_unused(self._mapped)


def files_there() -> frozenset[Path]:
    try:
        return frozenset(_FOLDER / name for name in os.listdir(_FOLDER))
    except OSError:  # only Linux has it
        return frozenset()
