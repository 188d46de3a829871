"""Values of profiles: where time or memory went inside a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

ProfileUnit = Literal["samples", "bytes"]
"""Unit of a profile's counts: samples of what was executing, or bytes that were allocated."""
WAITING = "[waiting]"
"""Last frame of a stack that was waiting (sleep, lock, I/O). All other stacks were computing."""
OTHER = "[other]"
"""First frame of the stacks that were too rare to be kept one by one."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Samples of the stacks of all processes of a run, by stack.

    A frame is `module:function`, or `library.so:function` in native code; just the library where it is stripped. Frames
    have no line numbers, pids or command lines, so that the profiles of two commits can be compared.
    """

    profiler: str
    unit: ProfileUnit
    seconds: float
    """Wall time that was sampled."""
    stacks: Mapping[tuple[str, ...], int]
    """Count of each stack. Frames begin at the root; see WAITING for how they end."""

    @property
    def total(self) -> int:
        return sum(self.stacks.values())
