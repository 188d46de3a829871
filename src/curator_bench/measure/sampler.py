"""The one shape of every sampler: what is measured while a run goes on. How it is measured is each sampler's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


class Sampler(Protocol):
    """Measures from `start` to `stop`. No method raises because a measurement failed: `warnings` tells of it."""

    def start(self) -> None:
        """Begin; returns once the first sample is taken, or after a moment when that takes too long."""

    def stop(self) -> None:
        """Take the last sample and end; to be called before what is measured is cleaned up."""

    def metrics(self) -> dict[str, float | int]:
        """The figures of the time from `start` to `stop`; what could not be measured is left out."""

    def warnings(self) -> tuple[str, ...]:
        """What the reader of the figures should know, each once."""


@dataclass(frozen=True, slots=True)
class SampledRun:
    """One execution of a script, as a sampler of your own is told of it: `Sampler(run)`."""

    name: str
    """The name of the entry, with its axes' values in brackets."""
    directory: Path
    """The folder for files of the sampler."""
    pids: Callable[[], Sequence[int]]
    """The processes of the script and of its cluster at this moment; none before the script has started."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The environment of the script, with the address of its cluster and what opens it."""
