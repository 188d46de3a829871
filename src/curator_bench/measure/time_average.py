"""Peak and time-weighted average of a quantity sampled now and then."""

from __future__ import annotations


class TimeAverage:
    """Peak and average of a quantity sampled at irregular intervals."""

    def __init__(self) -> None:
        self.peak: float | None = None
        """None without a sample, as is the average."""
        self._area = 0.0
        self._first: float | None = None
        self._last = (0.0, 0.0)

    def add(self, moment: float, value: float) -> None:
        if self._first is None:
            self._first = moment
        else:
            before, value_before = self._last
            self._area += (moment - before) * (value + value_before) / 2
        self.peak = value if self.peak is None else max(self.peak, value)
        self._last = (moment, value)

    @property
    def average(self) -> float | None:
        if self._first is None:
            return None
        moment, value = self._last
        return self._area / (moment - self._first) if moment > self._first else value
