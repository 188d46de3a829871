"""What is recorded, as values: picklable, and to and from the JSON of `unrecorded.jsonl`. Texts come masked."""

from __future__ import annotations

import dataclasses
import shlex
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from curator_bench import codec
from curator_bench.store.checking import wrong_values
from curator_bench.values import Check, Repeat, Run, RunRecord, Scalar, Session, Subject, Verdict


def new_uid() -> str:
    """Random, so that what different databases hold can be put together."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """The session an invocation belongs to. `uid` is found in its directory where it is not given."""

    name: str
    results_directory: str
    uid: str = ""
    reason: str | None = None
    commit: str | None = None
    dirty: bool | None = None
    branch: str | None = None
    viewer_url: str | None = None
    subjects: tuple[Subject, ...] = ()


@dataclass(frozen=True, slots=True)
class InvocationRecord:
    """One pytest process tree; all of its processes give the same uid."""

    uid: str
    start: datetime
    host: str | None = None
    environment: Mapping[str, Any] | None = None
    ci_run_url: str | None = None
    command_line: str | None = None
    end: datetime | None = None
    exit_status: int | None = None


@dataclass(frozen=True, slots=True)
class Process:
    """The process that records runs, and the machine it is on."""

    host: str
    machine_id: str
    boot_id: str
    pid: int
    process_start: float | None
    python_version: str
    platform: str
    ci_run_url: str | None = None


@dataclass(frozen=True, slots=True)
class RunStart:
    """What is known of a run when it starts. An empty `originalname` is the name."""

    name: str
    path: str
    start: datetime
    uid: str = field(default_factory=new_uid)
    originalname: str = ""
    nodeid: str | None = None
    definition_hash: str | None = None
    attempt: int = 1
    host: str | None = None
    machine_id: str | None = None
    node: str | None = None
    gpu: str | None = None
    boot_id: str | None = None
    pid: int | None = None
    process_start: float | None = None
    python_version: str | None = None
    platform: str | None = None
    ci_run_url: str | None = None
    command: str | None = None
    log_path: str | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """What has a column of its own in the row of a run; None where it was not measured."""

    ray_version: str | None = None
    ray_num_cpus: float | None = None
    ray_num_gpus: float | None = None
    average_memory: float | None = None
    peak_memory: float | None = None
    compute_time: float | None = None
    disk_spill_time: float | None = None
    serializing_time: float | None = None
    transfer_time: float | None = None
    peak_gpu_memory: float | None = None
    average_gpu_utilization: float | None = None
    cluster_name: str | None = None
    cluster_id: str | None = None
    cluster_details_url: str | None = None
    performance_report_url: str | None = None


@dataclass(frozen=True, slots=True)
class RunEnd:
    """What is known of a run that has ended. What the start said too (node, gpu, command, log) may be said better."""

    verdict: Verdict
    end: datetime
    duration: float | None = None
    setup_outcome: str | None = None
    call_outcome: str | None = None
    teardown_outcome: str | None = None
    exit_code: int | None = None
    error: str | None = None
    node: str | None = None
    gpu: str | None = None
    command: str | None = None
    log_path: str | None = None
    figures: Figures = Figures()
    metrics: Mapping[str, Scalar] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    repeats: tuple[Repeat, ...] = ()
    """Their metrics are kept as samples when there are several."""
    checks: tuple[Check, ...] = ()


_MEASURED = {
    "average_memory": "average_memory_bytes",
    "peak_memory": "peak_memory_bytes",
    "compute_time": "compute_time_s",
    "disk_spill_time": "disk_spill_time_s",
    "serializing_time": "serializing_time_s",
    "transfer_time": "transfer_time_s",
    "peak_gpu_memory": "peak_gpu_memory_bytes",
    "average_gpu_utilization": "average_gpu_utilization",
}
"""The columns that have the value of a metric, by the metric's name."""
_OUTCOMES = {Verdict.PASSED: "passed", Verdict.SKIPPED: "skipped"}
FIGURES = frozenset(field.name for field in dataclasses.fields(Figures))


def start_of(run: Run, process: Process) -> RunStart:
    """The row of a run that starts in this process, or in a fleet on behalf of it."""
    own = {field.name: getattr(process, field.name) for field in dataclasses.fields(Process)}
    return RunStart(
        **{**own, "machine_id": run.machine_id or process.machine_id},
        uid=run.uid,
        name=run.name,
        originalname=run.entry,
        path=run.file,
        nodeid=run.nodeid,
        definition_hash=run.definition_hash or None,
        attempt=run.attempt,
        start=datetime.fromisoformat(run.started_at),
        node=run.host or None,
        gpu=",".join(run.gpus) or None,
    )


def session_record(session: Session) -> SessionRecord:
    """The row of the session an invocation joins; its uid stands in its folder."""
    directory = Path(session.directory)
    return SessionRecord(
        name=directory.name,
        results_directory=str(directory.parent),
        reason=session.reason or None,
        commit=session.commit or None,
        dirty=session.dirty,
        branch=session.branch or None,
        viewer_url=session.viewer_url or None,
        subjects=session.subjects,
    )


def end_of(run: RunRecord) -> RunEnd:
    """What the row says of a run that has been judged. What a benchmark set on its row counts above all."""
    was_called = not run.phases or "call" in run.phases
    measured = {column: _number(run.metrics.get(metric)) for column, metric in _MEASURED.items()}
    ray = {"ray_version": run.ray_version or None, "ray_num_cpus": run.ray_num_cpus, "ray_num_gpus": run.ray_num_gpus}
    figures: dict[str, Any] = {
        **measured,
        **ray,
        **{name: value for name, value in run.columns.items() if name in FIGURES},
    }
    end = RunEnd(
        verdict=run.verdict,
        end=datetime.fromisoformat(run.ended_at),
        duration=run.duration_s if was_called else None,
        setup_outcome=run.phases.get("setup") if run.phases else "passed",
        call_outcome=run.phases.get("call") if run.phases else _OUTCOMES.get(run.verdict, "failed"),
        teardown_outcome=run.phases.get("teardown"),
        exit_code=run.exit_code,
        error=run.error or None,
        node=run.host or None,
        gpu=",".join(run.gpus) or None,
        command=shlex.join(run.command) or None,
        log_path=run.log_path or None,
        figures=Figures(**figures),
        metrics=run.metrics,
        params=run.params,
        repeats=run.repeats,
        checks=run.requirements,
    )
    said: dict[str, Any] = {name: value for name, value in run.columns.items() if name not in FIGURES}
    return dataclasses.replace(end, **said)


def _number(value: Scalar) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True)
class StoredRun:
    """All there is to record of one run that has ended, in the form of the files that runs are kept and exported in."""

    session: SessionRecord
    invocation: InvocationRecord | None
    start: RunStart
    end: RunEnd


def from_document(document: Mapping[str, Any]) -> StoredRun:
    """The record that a line of such a file holds, also a later version's. Raises ValueError."""
    try:
        record = codec.from_document(StoredRun, document)
    except ValueError as error:
        raise ValueError(f"this is no run: {error}") from error
    wrong = ", ".join(wrong_values(record))
    if wrong:
        raise ValueError(f"this is no run: {wrong}")
    return record
