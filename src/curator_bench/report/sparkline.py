"""A series as one line of text."""

from __future__ import annotations

from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"
BARS_IN_ASCII = "_.-~=+*#"


def drawn(values: Sequence[float], bars: str = BARS) -> str:
    """Return one character per value, scaled from the lowest to the highest."""
    if not values:
        return ""
    low, high = min(values), max(values)
    if low == high:
        return bars[len(bars) // 2] * len(values)
    scale = (len(bars) - 1) / (high - low) if high - low < float("inf") else 0.0
    return "".join(bars[round((value - low) * scale)] for value in values)
