"""Names of metrics by the unit in which another tool gives them: seconds and bytes end in `_s` and `_bytes` here."""

from __future__ import annotations

_SECONDS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "μs", "usec", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1e-9),
}
_BYTES = {"b": 1.0, "byte": 1.0, "bytes": 1.0}
_BYTES |= {f"{prefix}b": 1000.0**power for power, prefix in enumerate("kmgt", 1)}
_BYTES |= {f"{prefix}ib": 1024.0**power for power, prefix in enumerate("kmgt", 1)}
_RATES = ("iter/sec", "ops/sec", "ops/s", "iter/s")


def seconds_in(unit: object) -> float | None:
    """Return how many seconds a unit is; None if it is no time."""
    return _SECONDS.get(unit.strip().lower()) if isinstance(unit, str) else None


def metric_in(unit: str) -> tuple[str, float]:
    """Return the name of a metric that is given in a unit, and by what to multiply its values.

    A value in a unit of its own keeps it: `value`.
    """
    said = unit.strip().lower()
    if said in _RATES:
        return "ops_per_sec", 1.0
    said = said.removesuffix("/iter").removesuffix("/op")
    if (seconds := seconds_in(said)) is not None:
        return "time_s", seconds
    return ("size_bytes", _BYTES[said]) if said in _BYTES else ("value", 1.0)
