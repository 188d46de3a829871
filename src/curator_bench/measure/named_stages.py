"""Sums of the stages that a script or a test names with `curator_bench.stage`."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from curator_bench.values import Stage, StageKind

MOST_STAGES = 500
_MOST_SPANS = 10_000


@dataclass(slots=True)
class _Sum:
    count: int = 0
    failures: int = 0
    own_s: float = 0.0
    spans: list[tuple[float, float]] = field(default_factory=list)

    def add_span(self, began: float, ended: float) -> None:
        self.spans.append((began, ended))
        if len(self.spans) > _MOST_SPANS:
            self.spans = union_of(self.spans)
            if len(self.spans) > _MOST_SPANS // 2:  # shorten it by closing gaps, a millionth of them at a time
                self.spans = _closer(self.spans)


class NamedStages:
    """Stages by name. Thread-safe, as the stages of a test may be in threads."""

    most = MOST_STAGES

    def __init__(self, began: float) -> None:
        """Take the moment from which `started_s` and `ended_s` count."""
        self._began = began
        self._sums: dict[str, _Sum] = {}
        self._lock = threading.Lock()
        self.is_full = False
        """True if there were further stages, which are left out."""

    def add(self, name: str, count: int, failures: int, own_s: float, began: float, ended: float, pid: int) -> None:
        """Add some uses of a stage that began and ended in this span."""
        with self._lock:
            found = self._sums.get(name)
            if found is None:
                if len(self._sums) >= self.most:
                    self.is_full = True
                    return
                found = self._sums[name] = _Sum()
            found.count += count
            found.failures += failures
            found.own_s += own_s
            found.add_span(began, ended)

    def ended(self, name: str, began: float, ended: float, own_s: float, failed: bool) -> None:
        """Record one use of a stage in this process."""
        self.add(name, 1, int(failed), own_s, began, ended, 0)

    def stages(self) -> tuple[Stage, ...]:
        """Return the stages in the order in which they began."""
        with self._lock:
            found = [self._stage(name, one) for name, one in self._sums.items()]
        return tuple(sorted(found, key=lambda stage: stage.started_s or 0.0))

    def _stage(self, name: str, found: _Sum) -> Stage:
        spans = union_of(found.spans)
        return Stage(
            name=name,
            kind=StageKind.STEP,
            count=found.count,
            started_s=round(spans[0][0] - self._began, 6),
            ended_s=round(spans[-1][1] - self._began, 6),
            active_s=round(sum(ended - began for began, ended in spans), 6),
            executing_s=round(found.own_s, 6),
            failures=found.failures,
        )


def in_bounds(stages: Sequence[Stage], most: int = MOST_STAGES) -> tuple[Stage, ...]:
    """Keep the stages that took longest, in the order in which they began; those without a beginning come last."""
    kept = sorted(stages, key=lambda stage: -(stage.executing_s or 0.0))[:most]
    return tuple(sorted(kept, key=lambda stage: math.inf if stage.started_s is None else stage.started_s))


def union_of(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the spans in order, with overlapping ones as one."""
    united: list[tuple[float, float]] = []
    for began, ended in sorted(spans):
        if united and began <= united[-1][1]:
            united[-1] = (united[-1][0], max(united[-1][1], ended))
        else:
            united.append((began, ended))
    return united


def _closer(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Halve the number of spans by closing the smaller half of the gaps between them."""
    gaps = sorted(later[0] - earlier[1] for earlier, later in pairwise(spans))
    limit = gaps[len(gaps) // 2]
    closed = [spans[0]]
    for began, ended in spans[1:]:
        if began - closed[-1][1] <= limit:
            closed[-1] = (closed[-1][0], ended)
        else:
            closed.append((began, ended))
    return closed
