"""The seam between conducting and running: what is ordered, what is heard, and who carries it out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from curator_bench.fleet.messages import Slice, Where
from curator_bench.values import Cause, Plan, RunResult


@dataclass(frozen=True, slots=True)
class Order:
    """One run of an entry that is to be carried out."""

    plan: Plan
    needs: Slice = field(default_factory=Slice)
    not_on: frozenset[str] = frozenset()
    """Nodes on which an earlier attempt failed: avoided where there are others."""
    like: Where | None = None
    """The place of the run that this one confirms: it runs there, or on a machine of the same kind."""
    longest_s: float = math.inf
    """A run that has not answered after so many seconds is ended."""

    @property
    def uid(self) -> str:
        return self.plan.uid


@dataclass(frozen=True, slots=True)
class Began:
    uid: str
    where: Where | None = None
    """None is this process."""


@dataclass(frozen=True, slots=True)
class Progressed:
    """`status` is what the run says of itself at this moment: the content of its status.json."""

    uid: str
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    uid: str
    result: RunResult
    where: Where | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A run never began, and never will."""

    uid: str
    reason: str
    cause: Cause
    is_final: bool = False
    """Another attempt would be refused, too."""


Event: TypeAlias = Began | Progressed | Ended | Refused


class Runner(Protocol):
    """Carries out runs, one after the other or side by side. Each order is answered by one `Ended` or `Refused`."""

    def has_room(self, needs: Slice) -> bool:
        """True where one more run with these needs may be submitted now."""

    def submit(self, order: Order) -> None:
        """Carry it out as soon as there is a place for it."""

    def next_event(self, within_s: float) -> Event | None:
        """Wait for what happens next; None where nothing did in that time."""

    def stop(self, uid: str) -> None:
        """End a run, in good order; its last event follows."""

    def can_repeat(self, where: Where | None) -> bool:
        """True where a run can be measured again on the machine it was on, or on one like it."""
