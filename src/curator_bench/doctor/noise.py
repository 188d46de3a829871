"""Measures the noise of this machine: equal work is repeated and timed for some seconds."""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from curator_bench.doctor.conditions import Condition, good, warning

LOAD_S = 10.0
_LEAST_UNITS = 20
_NOISY = 0.01
"""Times that scatter by more than this share cannot show what `min_effect` asks for (3 %) with a few runs."""
_BLOCK = bytes(2**20)
_COPIED = 32 * 2**20
_TO_DEVIATION = 1.4826
"""From the median absolute deviation to the standard deviation of normal noise."""


@dataclass(frozen=True, slots=True)
class Noise:
    """The scatter of the time of equal work."""

    name: str
    units: int
    median_s: float
    spread: float
    """Share of the median, from the median absolute deviation."""
    slowest: float
    """The slowest unit, as a multiple of the median."""


def noise_of(name: str, work: Callable[[], object], seconds: float) -> Noise:
    """Time a piece of work again and again for so many seconds."""
    work()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < _LEAST_UNITS or time.perf_counter() < end:
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    median = statistics.median(times)
    deviation = statistics.median(abs(value - median) for value in times)
    return Noise(name, len(times), median, _TO_DEVIATION * deviation / median, max(times) / median)


def noises(seconds: float = LOAD_S) -> list[Noise]:
    """Measure the noise of computing and of memory, half of the time each."""
    source = bytearray(_COPIED)
    return [
        noise_of("noise of computing", _compute, seconds / 2),
        noise_of("noise of memory", lambda: bytes(source), seconds / 2),
    ]


def noise_condition(noise: Noise, visible: Callable[[float], str]) -> Condition:
    """Return the condition for a noise. `visible` tells which changes can be seen with it."""
    found = f"{noise.spread:.1%}, the slowest of {noise.units:,} took {noise.slowest:.2g} times as long"
    if noise.spread <= _NOISY:
        return good(noise.name, found)
    return warning(
        noise.name, found, visible(noise.spread), "fix the warnings above; `repeat: 5` reduces the noise that is left"
    )


def _compute() -> bytes:
    return hashlib.sha256(_BLOCK * 8).digest()
