"""Decides which runs may be compared: those of the same entry and series, on the same kind of machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_SHOWN = 8
_LONGEST = 100


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a value. All unknown series count as the same, and all unknown machines."""

    entry: str
    series: str | None = None
    machine: str | None = None
    identity: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The facts that define the series, for messages: arguments, datasets, parameters, CPUs, GPUs; empty if unknown."""


@dataclass(frozen=True, slots=True)
class Comparable:
    """The earlier runs that a run may be compared with, and the reasons against the others."""

    indices: tuple[int, ...]
    reasons: tuple[str, ...]
    """One for each kind of difference, with the number of runs, the most frequent first."""

    @property
    def reason(self) -> str:
        """The reasons in one sentence; empty where all runs are comparable."""
        return f"not comparable with {'; '.join(self.reasons)}" if self.reasons else ""


def comparable_with(origin: Origin, earlier: Sequence[Origin], runs: Sequence[int] | None = None) -> Comparable:
    """Select the runs comparable with one from `origin`, in their order.

    `runs` is the number of runs of each origin.
    """
    differences = [difference(origin, other) for other in earlier]
    counts: Counter[str] = Counter()
    for why, count in zip(differences, runs or [1] * len(differences), strict=True):
        counts[why] += count if why else 0
    counts.pop("", None)
    reasons = tuple(f"{_runs(count)}, because {why}" for why, count in counts.most_common())
    return Comparable(tuple(index for index, why in enumerate(differences) if not why), reasons)


def difference(origin: Origin, other: Origin) -> str:
    """The reason against comparing two runs; empty if they are comparable."""
    if origin.entry != other.entry:
        return f"the entry was {_name(other.entry)}, not {_name(origin.entry)}"
    if (origin.series or None) != (other.series or None):
        return _other_series(origin, other)
    if (origin.machine or None) != (other.machine or None):
        return f"the machine was {_name(other.machine)}, not {_name(origin.machine)}"
    return ""


def _other_series(origin: Origin, other: Origin) -> str:
    if not origin.identity or not other.identity:
        both = f"{_name(other.series)}, not {_name(origin.series)}"
        return f"the definition was another one ({both}), of which no more is recorded"
    names = [*origin.identity, *(name for name in other.identity if name not in origin.identity)]
    pairs = ((name, other.identity.get(name, ""), origin.identity.get(name, "")) for name in names)
    differences = [f"the {name} were {_shown(then)}, not {_shown(now)}" for name, then, now in pairs if then != now]
    return " and ".join(differences) or "what defines it was told otherwise by another release"


def _shown(text: str) -> str:
    return f"{text[:_LONGEST]}…" if len(text) > _LONGEST else text or "none"


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _name(text: str | None) -> str:
    """A hash by its beginning; a name in full."""
    if not text:
        return "(unknown)"
    is_hash = len(text) > _SHOWN and all(char in "0123456789abcdef" for char in text)
    return text[:_SHOWN] if is_hash else text
