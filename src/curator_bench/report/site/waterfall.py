"""The difference of two sides by stages, as bars of which each begins where the one above it ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from curator_bench.words import readable_seconds

_WIDTH = 200
_THINNEST = 1.5


@dataclass(frozen=True, slots=True)
class Bar:
    """One stage, and the seconds it adds to the difference."""

    name: str
    seconds: float
    interval: tuple[float, float] | None = None
    says: str = ""
    """Its verdict, or that only one side has it; empty for what is left."""
    change: float | None = None
    """The change of its work as a fraction."""
    note: str = ""

    @property
    def text(self) -> str:
        return signed(self.seconds)

    @property
    def range(self) -> str:
        return f"{signed(self.interval[0])} to {signed(self.interval[1])}" if self.interval else ""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A bar in a box of 200 by 10: its left end, its width, and where it ends."""

    bar: Bar
    x: float
    width: float
    end: float

    @property
    def shade(self) -> str:
        return "more" if self.bar.seconds > 0 else "less"


@dataclass(frozen=True, slots=True)
class Waterfall:
    """The difference of a time between two sides, by stage."""

    metric: str
    before: float
    after: float
    bars: tuple[Bar, ...]
    says: tuple[str, ...]
    """Return the named causes, in sentences."""
    consequences: tuple[str, ...]
    runs: tuple[int, int]

    @property
    def times(self) -> str:
        return f"{readable_seconds(self.before)} → {readable_seconds(self.after)}"

    @property
    def total(self) -> Drawn:
        return next(self._placed([Bar("in all", self.after - self.before)]))

    @property
    def drawn(self) -> list[Drawn]:
        return list(self._placed(self.bars))

    @property
    def zero(self) -> float:
        return self._place(0.0)

    def _placed(self, bars: tuple[Bar, ...] | list[Bar]) -> Iterator[Drawn]:
        total = 0.0
        for bar in bars:
            ends = sorted((self._place(total), self._place(total + bar.seconds)))
            total += bar.seconds
            width = max(ends[1] - ends[0], _THINNEST if bar.seconds else 0.0)
            yield Drawn(bar, round(ends[0], 1), round(width, 1), round(self._place(total), 1))

    def _place(self, seconds: float) -> float:
        low, high = self._reach
        return round(_WIDTH * (seconds - low) / ((high - low) or 1.0), 1)

    @property
    def _reach(self) -> tuple[float, float]:
        totals, total = [0.0, self.after - self.before], 0.0
        for bar in self.bars:
            total += bar.seconds
            totals.append(total)
        return min(totals), max(totals)


def signed(seconds: float) -> str:
    return f"{'−' if seconds < 0 else '+'}{readable_seconds(abs(seconds))}"
