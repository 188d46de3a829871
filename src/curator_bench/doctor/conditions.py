"""The answers of the doctor: one for each property of a machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """The meaning of a condition for benchmarks."""

    GOOD = "good"
    WARNING = "warning"
    """Times scatter or are not those of the machine at its best, or larger runs may fail."""
    MISSING = "missing"
    """Entries ask for it, and cannot have it here."""
    UNKNOWN = "unknown"
    """It cannot be read here."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One property of the machine."""

    name: str
    state: State
    found: str
    cost: str = ""
    """The price for those who measure here; empty if it is good or unknown."""
    remedy: str = ""
    """The command, or the setting, that mends it."""
    is_grave: bool = False
    """True if runs are likely to fail: each session warns of it, not only the doctor."""


def good(name: str, found: str) -> Condition:
    return Condition(name, State.GOOD, found)


def warning(name: str, found: str, cost: str, remedy: str, *, is_grave: bool = False) -> Condition:
    return Condition(name, State.WARNING, found, cost, remedy, is_grave)


def missing(name: str, found: str, cost: str, remedy: str) -> Condition:
    return Condition(name, State.MISSING, found, cost, remedy)


def unknown(name: str, found: str) -> Condition:
    return Condition(name, State.UNKNOWN, found)
