"""The interface of runners: orders go in, events come out."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from curator_bench.values import Began, Cause, Ended, Plan, Progressed, Slice, Where


@dataclass(frozen=True, slots=True)
class Order:
    """An order to run an entry once."""

    plan: Plan
    needs: Slice = field(default_factory=Slice)
    not_on: frozenset[str] = frozenset()
    """Nodes on which an earlier attempt failed. They are avoided if there are others."""
    like: Where | None = None
    """The place of the run that this one confirms. The order runs there, or on a machine of the same kind."""
    longest_s: float = math.inf
    """Seconds after which a run without an answer is ended."""

    @property
    def uid(self) -> str:
        return self.plan.uid


@dataclass(frozen=True, slots=True)
class Refused:
    """The run never began, and never will."""

    uid: str
    reason: str
    cause: Cause
    is_final: bool = False
    """True if another attempt would be refused as well."""


Event: TypeAlias = Began | Progressed | Ended | Refused


class Runner(Protocol):
    """Carries out runs, one by one or side by side. Each order is answered by one `Ended` or `Refused`."""

    def has_room(self, needs: Slice) -> bool:
        """True if another run with these needs may be submitted now."""

    def submit(self, order: Order) -> None:
        """Run the order as soon as there is room."""

    def next_event(self, within_s: float) -> Event | None:
        """Return the next event, or None if there was none in that time."""

    def stop(self, uid: str) -> None:
        """End a run in order. Its last event follows."""

    def can_repeat(self, where: Where | None) -> bool:
        """True if a run can be repeated on the same machine, or on one of its kind."""
