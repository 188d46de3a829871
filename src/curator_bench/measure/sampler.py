"""The interface of every sampler. How it measures is its own matter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


class Sampler(Protocol):
    """Measures from `start` to `stop`. A failed measurement raises nothing; it is reported by `warnings`."""

    def start(self) -> None:
        """Start; return after the first sample, or after a moment if that takes too long."""

    def stop(self) -> None:
        """Take the last sample and stop. Called before the measured processes are cleaned up."""

    def metrics(self) -> dict[str, float | int]:
        """Metrics of the time from `start` to `stop`. What could not be measured is left out."""

    def warnings(self) -> tuple[str, ...]:
        """Warnings for the reader of the metrics, each once."""


@dataclass(frozen=True, slots=True)
class SampledRun:
    """One execution of a script, passed to your own sampler: `Sampler(run)`."""

    name: str
    """Name of the entry, with its axis values in brackets."""
    directory: Path
    """Folder for the sampler's files."""
    pids: Callable[[], Sequence[int]]
    """Returns the pids of the script and its cluster now; empty before the script has started."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment of the script, with the address and token of its cluster."""
