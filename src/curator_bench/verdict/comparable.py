"""Decides which runs may be compared: those of the same entry and definition, on the same kind of machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a value. A definition or a machine that is not known is the same as any other unknown one."""

    entry: str
    definition: str | None = None
    machine: str | None = None


@dataclass(frozen=True, slots=True)
class Comparable:
    """Split the earlier runs into those a run may be compared with, and reasons against the others."""

    indices: tuple[int, ...]
    reasons: tuple[str, ...]
    """One for each kind of difference, with the number of runs, the most frequent first."""

    @property
    def reason(self) -> str:
        """The reasons in one sentence; empty where all runs are comparable."""
        return f"not comparable because {'; '.join(self.reasons)}" if self.reasons else ""


def comparable_with(origin: Origin, earlier: Sequence[Origin], runs: Sequence[int] | None = None) -> Comparable:
    """Picks the runs that are like the one from `origin`; in their order. `runs`: how many there are of each."""
    differences = [difference(origin, other) for other in earlier]
    counts: Counter[str] = Counter()
    for why, count in zip(differences, runs or [1] * len(differences), strict=True):
        counts[why] += count if why else 0
    counts.pop("", None)
    reasons = tuple(f"{_runs(count)}: {why}" for why, count in counts.most_common())
    return Comparable(tuple(index for index, why in enumerate(differences) if not why), reasons)


def difference(origin: Origin, other: Origin) -> str:
    """The reason against comparing two runs; empty if they are comparable."""
    if origin.entry != other.entry:
        return f"it is {_name(other.entry)}, not {_name(origin.entry)}"
    if (origin.definition or None) != (other.definition or None):
        return f"the definition changed from {_name(other.definition)} to {_name(origin.definition)}"
    if (origin.machine or None) != (other.machine or None):
        return f"it ran on machine {_name(other.machine)}, not {_name(origin.machine)}"
    return ""


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _name(text: str | None) -> str:
    """A hash by its beginning; a name in full."""
    if not text:
        return "(unknown)"
    is_hash = len(text) > _SHOWN and all(char in "0123456789abcdef" for char in text)
    return text[:_SHOWN] if is_hash else text
