"""What pages say: numbers, changes and times as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median

from curator_bench.values import Scalar
from curator_bench.words import readable, readable_seconds

_POINTS = 60
_WIDTH, _HEIGHT, _MARGIN = 120, 26, 3


def value(scalar: Scalar, metric: str = "") -> str:
    return readable(metric, scalar)


def change(fraction: float | None) -> str:
    if fraction is None or math.isnan(fraction):
        return "–"
    if not math.isfinite(fraction):
        return "no longer zero"
    digits = 0 if abs(fraction) >= 1 else 1
    return f"{100 * fraction:+.{digits}f} %".replace("-", "−")


def seconds(duration: float | None) -> str:
    return "–" if duration is None else readable_seconds(duration)


def moment(time: datetime | None) -> str:
    return f"{time:%Y-%m-%d %H:%M}" if time else "–"


def commit(sha: str | None) -> str:
    return sha[:10] if sha else "–"


def first_line(text: str, longest: int = 160) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= longest else line[: longest - 1] + "…"


def spread(values: Sequence[float]) -> float | None:
    """How much one run differs from the next, as a fraction: robust, and blind to steps between levels."""
    steps = [abs(later - earlier) for earlier, later in pairwise(values)]
    level = abs(median(values)) if values else 0.0
    if len(steps) < 4 or not level:
        return None
    found = 1.4826 * median(steps) / math.sqrt(2) / level
    return found if math.isfinite(found) else None


def course(values: Sequence[float]) -> str:
    """The points of a line in a box of 120 by 26: the newest values, oldest left."""
    shown = [number for number in values if math.isfinite(number)][-_POINTS:]
    if len(shown) < 2:
        return ""
    low, high = min(shown), max(shown)
    span = high - low if math.isfinite(high - low) and high > low else 1.0
    step = (_WIDTH - 2 * _MARGIN) / (len(shown) - 1)
    flat = high == low
    heights = [0.5 if flat else (number - low) / span for number in shown]
    return " ".join(
        f"{_MARGIN + place * step:.1f},{_HEIGHT - _MARGIN - height * (_HEIGHT - 2 * _MARGIN):.1f}"
        for place, height in enumerate(heights)
    )
