"""The run of an entry as the database keeps it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from curator_bench.fleet.messages import Where
from curator_bench.rootdir import name_in_project
from curator_bench.runner.recorder import recording_of
from curator_bench.runner.run_keys import DEFINITION
from curator_bench.store.records import Figures, RunEnd, RunStart
from curator_bench.values import Check, Entry, Plan, RunResult, Scalar, Verdict

_UID = pytest.StashKey[str]()
"""Of the row that is under way or done; only with --benchmark."""
_OUTCOMES = {Verdict.PASSED: "passed", Verdict.SKIPPED: "skipped"}


def start(item: pytest.Item, entry: Entry, plan: Plan, where: Where | None = None) -> None:
    """The row of a run that starts now; nothing without --benchmark. `where`: in a fleet."""
    recording = recording_of(item.config)
    if recording is None:
        return
    item.stash[_UID] = recording.start(
        RunStart(
            uid=plan.uid,
            name=entry.id,
            originalname=entry.name,
            path=path_of(item, entry),
            nodeid=item.nodeid,
            definition_hash=item.stash[DEFINITION].hash,
            attempt=plan.attempt,
            start=datetime.now(UTC),
            machine_id=where.machine_id if where else None,
            node=where.host if where else None,
            gpu=",".join(where.gpus) or None if where else None,
        )
    )


def path_of(item: pytest.Item, entry: Entry) -> str:
    """The file of an entry as the database knows it."""
    return name_in_project(entry.file.file, item.config)


def finish(item: pytest.Item, result: RunResult, verdict: Verdict, checks: Sequence[Check]) -> None:
    """Completes the row of a run that has been judged."""
    recording = recording_of(item.config)
    if recording is None or _UID not in item.stash:
        return
    recording.finish(
        item.stash[_UID],
        RunEnd(
            verdict=verdict,
            end=datetime.fromisoformat(result.ended_at),
            duration=result.duration_s,
            setup_outcome="passed",
            call_outcome=_OUTCOMES.get(verdict, "failed"),
            exit_code=result.exit_code,
            error=result.error or None,
            node=result.host,
            gpu=",".join(result.gpus) or None,
            command=shlex.join(result.command),
            log_path=result.log_path or None,
            figures=_figures(result),
            metrics=result.metrics,
            params=result.params,
            repeats=result.repeats,
            checks=tuple(checks),
        ),
    )


def note_teardown(item: pytest.Item, outcome: str) -> None:
    """What became of the item's fixtures; and of a run that nobody came to judge."""
    recording = recording_of(item.config)
    if recording is None or _UID not in item.stash:
        return
    uid = item.stash[_UID]
    if recording.is_under_way(uid):
        error = "ended before it was judged: a fixture or a hook failed"
        recording.finish(uid, RunEnd(Verdict.ERROR, datetime.now(UTC), call_outcome="failed", error=error))
    recording.recorder.note_teardown(uid, outcome)


def _figures(result: RunResult) -> Figures:
    metrics = result.metrics
    return Figures(
        ray_version=result.ray_version or None,
        ray_num_cpus=result.ray_num_cpus,
        ray_num_gpus=result.ray_num_gpus,
        average_memory=_number(metrics.get("average_memory_bytes")),
        peak_memory=_number(metrics.get("peak_memory_bytes")),
        peak_gpu_memory=_number(metrics.get("peak_gpu_memory_bytes")),
        average_gpu_utilization=_number(metrics.get("average_gpu_utilization")),
    )


def _number(value: Scalar) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
