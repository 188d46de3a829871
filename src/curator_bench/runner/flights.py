"""Attempts at entries that are to run, or run, in a fleet; and what is said of those that do not answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from curator_bench.collection import entry_of
from curator_bench.execution.failed import answer_for
from curator_bench.fleet.messages import Slice, Where
from curator_bench.fleet.slices import slice_of
from curator_bench.values import Entry, Plan, RunResult, Verdict


@dataclass(slots=True, eq=False)
class Flight:
    """One attempt at an entry, from its submission to its result."""

    item: pytest.Item
    entry: Entry
    wanted: Slice
    attempt: int = 1
    not_on: frozenset[str] = frozenset()
    only_on: frozenset[str] = frozenset()
    """The nodes like the one it was measured on before; there are any only where it is measured again."""
    measured: RunResult | None = None
    """What came of the run before, where it is measured again."""
    plan: Plan | None = None
    where: Where | None = None
    """None while it waits in Ray's queue."""
    submitted: datetime = field(default_factory=lambda: datetime.now(UTC))
    began: datetime | None = None
    must_end_by: float = float("inf")
    homeless_since: float | None = None
    """Since when no node is large enough for it."""
    is_late: bool = False
    status: Mapping[str, Any] = field(default_factory=dict)
    """What it said last of how far it is: the content of its status.json, wherever that is."""

    @property
    def may_wait_again(self) -> bool:
        """In a new cluster, as if nothing had been: it never left the queue, and needs no node of the one before."""
        return self.where is None and self.measured is None


def flight_of(item: pytest.Item, runs_per_gpu: int) -> Flight:
    entry = entry_of(item)
    assert entry is not None
    return Flight(item, entry, slice_of(entry.ray, runs_per_gpu))


def interrupted(flight: Flight) -> RunResult:
    assert flight.plan
    began, host = flight.began or flight.submitted, flight.where.host if flight.where else ""
    return answer_for(flight.plan, Verdict.INTERRUPTED, "stopped from outside", None, began, host)


def lost_at(where: Where, reason: str) -> str:
    gpus = f", GPU {','.join(where.gpus)}" if where.gpus else ""
    return f"its worker on {where} (process {where.pid}{gpus}) ended under it: {reason}"
