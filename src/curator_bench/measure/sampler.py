"""The one shape of every sampler: what is measured while a run goes on. How it is measured is each sampler's own."""

from __future__ import annotations

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
