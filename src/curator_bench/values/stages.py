"""Values of stages: the named parts of a run, each with its own time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class StageKind(StrEnum):
    """Source of a stage."""

    TASK = "task"
    """A Ray task, by the name of its function."""
    ACTOR = "actor"
    """A method of a Ray actor."""
    OPERATOR = "operator"
    """An operator of Ray Data, or several that Ray Data fused."""
    STEP = "step"
    """A stage that the script names: a task of tasks.pkl, or `curator_bench.stage(…)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The figures of one stage of a run, summed over its tasks. An unknown figure is None, never zero."""

    name: str
    kind: StageKind
    parts: tuple[str, ...] = ()
    """Names of the operators that were fused into this one; empty if none were."""
    count: int = 0
    """Number of tasks that were executed."""
    started_s: float | None = None
    """When its first task began, in seconds since the script started."""
    ended_s: float | None = None
    """When its last task ended."""
    active_s: float | None = None
    """Seconds during which at least one of its tasks was executing."""
    executing_s: float | None = None
    """Seconds of executing, summed over its tasks: worker-seconds. Stages that `curator_bench.stage` measured inside it
    are not counted in it, so that stages add up."""
    reading_s: float | None = None
    """Seconds of reading arguments, summed."""
    storing_s: float | None = None
    """Seconds of storing results, summed."""
    waiting_s: float | None = None
    """Seconds between submission and start, summed over the tasks whose times are known."""
    times_missing: int = 0
    """Number of tasks whose executing is unknown, because their worker was killed. The sums are those of the others."""
    waits_missing: int = 0
    """Number of tasks whose waiting is unknown, because the owner's last report was lost."""
    bytes_in: int | None = None
    bytes_out: int | None = None
    backpressure_s: float | None = None
    """Seconds during which Ray Data held the operator back: a later one was slower, or resources were taken."""
    retries: int = 0
    """Number of its tasks that were executed again after a failure, each time counted."""
    failures: int = 0
    """Number of attempts at its tasks that failed."""
