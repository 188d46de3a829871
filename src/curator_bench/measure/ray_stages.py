"""Stages of a run with Ray: what task events tell of tasks and methods, and Ray Data's log of its operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from curator_bench.measure.named_stages import in_bounds
from curator_bench.measure.ray_data_log import FUSED, Operator
from curator_bench.values import Stage, StageKind

_SECONDS = {
    "started": "started_s",
    "ended": "ended_s",
    "active": "active_s",
    "executing": "executing_s",
    "reading": "reading_s",
    "storing": "storing_s",
    "waiting": "waiting_s",
}
_COUNTS = ("count", "times_missing", "waits_missing", "retries", "failures")


def ray_stages(told: Iterable[Mapping[str, Any]], operators: Mapping[str, Operator]) -> tuple[Stage, ...]:
    """Build the stages from the answer of `ray_tasks_program` and the operators of Ray Data's log."""
    stages = [_stage(figures, operators) for figures in told]
    seen = {stage.name for stage in stages if stage.kind is StageKind.OPERATOR}
    unseen = {name: one for name, one in operators.items() if name not in seen and one.get("num_tasks_finished")}
    return in_bounds((*stages, *(_operator({"name": name}, one) for name, one in unseen.items())))


def _stage(figures: Mapping[str, Any], operators: Mapping[str, Operator]) -> Stage:
    name, kind = figures["name"], StageKind(figures["kind"])
    if kind is StageKind.OPERATOR or (kind is StageKind.TASK and name in operators):
        return _operator(figures, operators.get(name, Operator()))
    return Stage(name=name, kind=kind, **_seconds(figures), **{count: figures[count] for count in _COUNTS})


def _operator(figures: Mapping[str, Any], operator: Operator) -> Stage:
    """Build the stage of an operator. Its tasks wait while they run, so events do not tell how long they worked."""
    waited = operator.get("task_scheduling_time_s")
    seconds: dict[str, Any] = {
        **_seconds(figures),
        "executing_s": operator.executing_s,
        "storing_s": operator.get("block_serialization_time_s"),
    }
    counts: dict[str, int] = {count: figures.get(count, 0) for count in _COUNTS}
    if waited is not None:
        seconds["waiting_s"], counts["waits_missing"] = waited, 0
    if operator.executing_s is not None:
        counts["times_missing"] = 0
    counts["count"] = counts["count"] or int(operator.get("num_tasks_finished") or 0)
    parts = tuple(figures["name"].split(FUSED))
    return Stage(
        name=figures["name"],
        kind=StageKind.OPERATOR,
        parts=parts if len(parts) > 1 else (),
        bytes_in=_whole(operator.get("bytes_task_inputs_processed")),
        bytes_out=_whole(operator.get("bytes_task_outputs_generated")),
        backpressure_s=operator.backpressure_s,
        **seconds,
        **counts,
    )


def _seconds(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {ours: _rounded(figures.get(name)) for name, ours in _SECONDS.items()}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)
