"""Explains why two sides of an entry differ: by its stages, and by what else changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from curator_bench.causes.commands import Question
from curator_bench.causes.explanation import Explanation, explain
from curator_bench.causes.matched_stages import StagedRun
from curator_bench.causes.recorded import facts_of
from curator_bench.causes.sides import Sides
from curator_bench.causes.what_changed import WhatChanged, what_changed
from curator_bench.errors import BenchError
from curator_bench.store.queries import PastRun
from curator_bench.store.staged_runs import cpus_of, ids_of
from curator_bench.store.stages import stages_of
from curator_bench.verdict.cases import MIN_EFFECT
from curator_bench.verdict.judgement import Word

if TYPE_CHECKING:
    from sqlalchemy import Connection

WALL_TIME = "exec_time_s"
"""The time of the script, which is explained where no other time is asked for."""
_TIMES = ("_s", "_seconds")


@dataclass(frozen=True, slots=True)
class Why:
    """The answer of `curator-bench why`."""

    sides: Sides
    metric: str
    """The time that is split over the stages."""
    explanation: Explanation
    changed: WhatChanged
    without: tuple[int, int] = (0, 0)
    """Number of runs of each side that recorded no stages."""


def is_time(metric: str) -> bool:
    return metric.endswith(_TIMES) and "per_" not in metric


def why(connection: Connection, sides: Sides, metric: str | None = None, *, limit: float = MIN_EFFECT) -> Why:
    """Explain the difference of two sides. A metric that is no time is explained by the time of the script.

    Raises BenchError if a side has no stages.
    """
    time = metric if metric is not None and is_time(metric) else WALL_TIME
    staged = [_staged(connection, runs, time) for runs in (sides.before, sides.after)]
    for runs, found, side in zip((sides.before, sides.after), staged, ("before", "after"), strict=True):
        if not found:
            raise BenchError(_why_none(connection, sides.entry.name, runs, side, time))
    without = len(sides.before) - len(staged[0]), len(sides.after) - len(staged[1])
    return Why(sides, time, explain(*staged, limit=limit), changed_between(connection, sides), without)


def changed_between(connection: Connection, sides: Sides) -> WhatChanged:
    """Return what else changed between the runs around a change."""
    ids = ids_of(connection, [sides.before[-1].uid, sides.after[0].uid])
    old, new = ids[sides.before[-1].uid], ids[sides.after[0].uid]
    facts = facts_of(connection, [old, new])
    return what_changed(facts[old], facts[new])


def question_of(sides: Sides, metric: str | None, found: Why | None) -> Question | None:
    """Return what commands would look into; None if the later side is certainly better."""
    if found is not None and found.explanation.change.word is Word.IMPROVEMENT:
        return None
    time = found.metric if found is not None else WALL_TIME
    sessions = sides.before[-1].session, sides.after[0].session
    return Question(sides.entry.name, sides.entry.path, metric or time, sessions)


def _why_none(connection: Connection, entry: str, runs: Sequence[PastRun], side: str, time: str) -> str:
    if stages_of(connection, [run.uid for run in runs]):
        return f"no run of {entry} {side} with stages measured {time}"
    named = f"{runs[0].session} to {runs[-1].session}" if len(runs) > 1 else runs[0].session
    return (
        f"no run of {entry} {side} ({named}) recorded stages. A script that uses neither Ray nor tasks.pkl names"
        " them with `with curator_bench.stage(…)`. Measure this side again then, or name sides whose runs have stages"
    )


def _staged(connection: Connection, runs: Sequence[PastRun], time: str) -> list[StagedRun]:
    uids = [run.uid for run in runs]
    stages, cpus = stages_of(connection, uids), cpus_of(connection, uids)
    return [
        StagedRun(stages=stages[run.uid], wall_s=wall, cpus=cpus.get(run.uid))
        for run in runs
        if run.uid in stages and (wall := _time_of(run, time)) is not None
    ]


def _time_of(run: PastRun, time: str) -> float | None:
    value = run.metrics.get(time)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf"):
        return float(value)
    return run.measured_s if time == WALL_TIME and run.measured_s else None
