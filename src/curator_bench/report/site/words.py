"""Text for pages: numbers, changes and times as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from curator_bench import words
from curator_bench.report.site.model import SeriesFacts, TrendFacts
from curator_bench.values import Scalar
from curator_bench.words import multiple, readable, readable_seconds

_POINTS = 60
_WIDTH, _HEIGHT, _MARGIN = 120, 26, 3


def value(scalar: Scalar, metric: str = "") -> str:
    return readable(metric, scalar)


def change(fraction: float | None) -> str:
    if fraction is None or math.isnan(fraction):
        return "–"
    if not math.isfinite(fraction):
        return "no longer zero"
    if large := multiple(fraction):
        return large
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


def share(fraction: float | None) -> str:
    """Return a fraction as text such as `34 %` or `0.5 %`."""
    return "–" if fraction is None or not math.isfinite(fraction) else f"{100 * float(f'{fraction:.2g}'):g} %"


def sight(one: SeriesFacts) -> str:
    """Return in a phrase which changes a judgement cannot see; empty if that is unknown."""
    return "" if one.visible is None else words.sight(one.noise, one.history, one.visible, share)


def blindness(one: SeriesFacts) -> str:
    """Return in a phrase which changes a judgement cannot see but should."""
    wanted = "the limit of its gate is" if one.is_gated else "what should be seen is"
    return f"{sight(one)}; {wanted} {share(one.limit)}"


def off(fraction: float) -> str:
    """Return a change as text that says its direction: `12 % worse`."""
    digits = 0 if abs(fraction) >= 0.1 else 1
    return f"{100 * abs(fraction):.{digits}f} % {'worse' if fraction > 0 else 'better'}"


@dataclass(frozen=True, slots=True)
class Line:
    """A line around a step, in a box of 260 by 64: its points, the place of the step, and the levels."""

    points: str
    left: float
    at: float
    right: float
    before: float
    after: float


def around(trend: TrendFacts | None) -> Line | None:
    """Return the line of the values around a step, and since; None if there are too few."""
    if trend is None or not 0 < trend.began < len(trend.values):
        return None
    values = trend.values
    levels = median(values[: trend.began]), median(values[trend.began :])
    spread = sorted(values)[len(values) // 50 : len(values) - len(values) // 50]
    low, high = min(*spread, *levels), max(*spread, *levels)
    span = (high - low) or 1.0
    step = 252 / (len(values) - 1)

    def height(value: float) -> float:
        return round(58 - 52 * (min(max(value, low), high) - low) / span, 1)

    points = " ".join(f"{4 + place * step:.1f},{height(value)}" for place, value in enumerate(values))
    at = round(4 + (trend.began - 0.5) * step, 1)
    return Line(points, 4, at, 256, height(levels[0]), height(levels[1]))


def trend(values: Sequence[float]) -> str:
    """Return the points of a line in a box of 120 by 26, with the newest value on the right."""
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
