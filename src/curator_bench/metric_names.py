"""Which metrics are shown, and in which order: by their names alone."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

SPREAD = ("min", "max", "std", "n")
"""The endings of the metrics that say how the repeats of another one differ."""
BOOKKEEPING = frozenset(["exit_code"])


def is_secondary(name: str, metrics: Container[str]) -> bool:
    """True for the spread of repeats beside their median, and for bookkeeping: neither is a metric of its own."""
    base, _, ending = name.rpartition("_")
    is_spread = ending in SPREAD and all(each in metrics for each in (base, f"{base}_min", f"{base}_max"))
    return is_spread or name in BOOKKEEPING


def in_order(names: Iterable[str], first: Sequence[str]) -> list[str]:
    """The metrics of a run that are its own; those named in requirements or sinks, `first`, stand first."""
    known = list(dict.fromkeys(names))
    own = [name for name in known if name in first or not is_secondary(name, known)]
    return [*(name for name in dict.fromkeys(first) if name in own), *(name for name in own if name not in first)]
