"""The exceptions users see. Each message says what happened, where, and what to do next; none needs a traceback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # every pytest start imports this module, and `values` takes it 10 ms
    from curator_bench.values import Place


class BenchError(Exception):
    """An error that the user can correct."""


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """One mistake in a matrix: where it stands, the path inside the file, and what is wrong with it."""

    place: Place
    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place}: {self.path}: {self.problem}" if self.path else f"{self.place}: {self.problem}"


class MatrixError(BenchError):
    """A matrix with mistakes; all of them at once."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(sorted(set(mistakes)))
        count = len(self.mistakes)
        headline = f"{count} mistake{'s' if count > 1 else ''} in the benchmark matrix:"
        super().__init__("\n".join([headline, *(f"  {mistake}" for mistake in self.mistakes)]))


class MissingExtra(BenchError):
    """A feature was asked for whose extra is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an extra that is not installed: pip install 'curator-bench[{extra}]'")


class ClusterError(BenchError):
    """A Ray cluster that could not be started, reached or stopped."""


class DatasetError(BenchError):
    """A dataset that is missing or could not be generated."""


class GpuError(BenchError):
    """A GPU that no run may use."""
