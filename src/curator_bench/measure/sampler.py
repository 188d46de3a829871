"""The interface of every sampler, and samplers of users, which never fail a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from curator_bench import extensions

_LONGEST = 300


class Sampler(Protocol):
    """Measures from `start` to `stop`. A failed measurement raises nothing; it is reported by `warnings`."""

    def start(self) -> None:
        """Start; return after the first sample, or after a moment if that takes too long."""

    def stop(self) -> None:
        """Take the last sample and stop. Called before the measured processes are cleaned up."""

    def metrics(self) -> Mapping[str, float | int | str]:
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


class CustomSampler:
    """A user's sampler, wrapped so that it never fails a run."""

    def __init__(self, name: str, folder: Path, run: SampledRun) -> None:
        """Make the sampler. `name` is as in `Plan.samplers`; files are looked for in `folder`."""
        self._name = name
        self._warnings: list[str] = []
        self._sampler: Sampler | None = self._guarded(lambda: extensions.find("sampler", name, folder)(run))

    def start(self) -> None:
        if self._sampler is not None:
            self._guarded(self._sampler.start)

    def stop(self) -> None:
        if self._sampler is not None:
            self._guarded(self._sampler.stop)

    def metrics(self) -> dict[str, float | int]:
        found = self._guarded(lambda: dict(self._sampler.metrics()) if self._sampler else {}) or {}
        odd = sorted(str(name) for name, value in found.items() if not _is_metric(name, value))
        if odd:
            self._warn(f"{', '.join(odd)} is not a number")
        return {name: value for name, value in found.items() if _is_metric(name, value)}

    def warnings(self) -> tuple[str, ...]:
        theirs = self._guarded(lambda: tuple(map(str, self._sampler.warnings())) if self._sampler else ()) or ()
        return (*self._warnings, *theirs)

    def _guarded(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:  # a sampler never fails a run
            self._warn(f"{type(error).__name__}: {error}")
            return None

    def _warn(self, problem: str) -> None:
        said = f"the sampler {self._name}: {problem}"[:_LONGEST]
        if said not in self._warnings:
            self._warnings.append(said)


def _is_metric(name: object, value: object) -> bool:
    if not isinstance(name, str) or isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and not math.isnan(value))
