"""Values to record. They are picklable, and convert to and from the JSON of `unrecorded.jsonl`. Texts arrive masked."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shlex
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from curator_bench.files import codec
from curator_bench.store.checking import wrong_values
from curator_bench.values import WHERE_SAID, Check, Repeat, Run, RunRecord, Scalar, Session, Stage, Subject, Verdict

_UID_LENGTH = 32


def new_uid() -> str:
    """A random uid, so that different databases can be merged."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """The session an invocation belongs to. An empty `uid` is read from the session's directory."""

    name: str
    results_directory: str
    uid: str = ""
    reason: str | None = None
    commit: str | None = None
    dirty: bool | None = None
    branch: str | None = None
    viewer_url: str | None = None
    subjects: tuple[Subject, ...] = ()
    committed_at: datetime | None = None
    commit_depth: int | None = None
    branches: tuple[str, ...] | None = None
    """For a detached checkout, the branches that contain its commit."""


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
class DefinitionRecord:
    """A definition as it is recorded, masked."""

    uid: str
    """The definition hash."""
    series_hash: str
    content_hash: str
    content: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    """Text of each script by its name."""


@dataclass(frozen=True, slots=True)
class Background:
    """Definition and circumstances of a run, stored once for all runs that share them."""

    definition: DefinitionRecord | None = None
    circumstances: Mapping[str, Any] = field(default_factory=dict)
    """Facts by kind: packages, machine, environment, configuration."""

    @property
    def circumstances_uid(self) -> str | None:
        return fact_uid(self._named) if self.circumstances else None

    @property
    def facts(self) -> dict[str, Any]:
        """The facts to store, by uid."""
        parts = [*self.circumstances.values(), *(self.definition.sources.values() if self.definition else ())]
        every = [*parts, *([self._named] if self.circumstances else [])]
        return {fact_uid(one): one for one in every}

    @property
    def _named(self) -> dict[str, str]:
        return {kind: fact_uid(fact) for kind, fact in self.circumstances.items()}


NO_BACKGROUND = Background()


def fact_uid(content: Any) -> str:
    """Hash a fact. Equal content has the same uid in every database."""
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_UID_LENGTH]


@dataclass(frozen=True, slots=True)
class RunStart:
    """A run as known at its start. An empty `originalname` means that it equals `name`."""

    name: str
    path: str
    start: datetime
    uid: str = field(default_factory=new_uid)
    originalname: str = ""
    nodeid: str | None = None
    definition_hash: str | None = None
    circumstances: str | None = None
    """Uid of the fact that names what it was measured with."""
    attempt: int = 1
    hunt: str | None = None
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
    """Figures with their own column in a run's row; None if not measured."""

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
class PackedProfile:
    """A profile as it is recorded. `store.profiles` packs and unpacks it."""

    profiler: str
    unit: str
    seconds: float
    stacks: str
    """Collapsed stacks, compressed by zlib, in base64."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """A run as known at its end. Fields that the start has too (node, gpu, command, log) replace the start's value."""

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
    """Metrics of each repeat; stored as samples if there are several repeats."""
    samples: Mapping[str, tuple[float, ...]] = field(default_factory=dict, metadata=WHERE_SAID)
    """Samples of a run that was executed once."""
    checks: tuple[Check, ...] = ()
    stages: tuple[Stage, ...] = field(default=(), metadata=WHERE_SAID)
    disturbed: str | None = None
    profiles: tuple[PackedProfile, ...] = field(default=(), metadata=WHERE_SAID)


METRIC_OF_COLUMN = {
    "average_memory": "average_memory_bytes",
    "peak_memory": "peak_memory_bytes",
    "compute_time": "compute_time_s",
    "disk_spill_time": "disk_spill_time_s",
    "serializing_time": "serializing_time_s",
    "transfer_time": "transfer_time_s",
    "peak_gpu_memory": "peak_gpu_memory_bytes",
    "average_gpu_utilization": "average_gpu_utilization",
}
"""Columns that repeat a metric's value, with the metric's name."""
_OUTCOMES = {Verdict.PASSED: "passed", Verdict.SKIPPED: "skipped"}
FIGURES = frozenset(field.name for field in dataclasses.fields(Figures))


def start_of(run: Run, process: Process) -> RunStart:
    """Build the row of a run that starts in this process, or in a fleet on its behalf."""
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
        hunt=run.hunt or None,
        start=datetime.fromisoformat(run.started_at),
        node=run.host or None,
        gpu=",".join(run.gpus) or None,
    )


def session_record(session: Session) -> SessionRecord:
    """Build the row of the session an invocation joins. Its uid is in the session's folder."""
    directory, place = Path(session.directory), session.place
    return SessionRecord(
        name=directory.name,
        results_directory=str(directory.parent),
        reason=session.reason or None,
        commit=session.commit or None,
        dirty=session.dirty,
        branch=session.branch or None,
        committed_at=datetime.fromtimestamp(place.time, UTC) if place else None,
        commit_depth=place.depth if place else None,
        branches=place.branches if place and not session.branch else None,
        viewer_url=session.viewer_url or None,
        subjects=session.subjects,
    )


def end_of(run: RunRecord) -> RunEnd:
    """Build the end of a judged run's row. Columns that the benchmark set itself take precedence."""
    was_called = not run.phases or "call" in run.phases
    measured = {column: _number(run.metrics.get(metric)) for column, metric in METRIC_OF_COLUMN.items()}
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
        samples=run.samples,
        checks=run.requirements,
        stages=run.stages,
        disturbed=run.disturbed,
    )
    said: dict[str, Any] = {name: value for name, value in run.columns.items() if name not in FIGURES}
    return dataclasses.replace(end, **said)


def _number(value: Scalar) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True)
class StoredRun:
    """Everything to record of one ended run, as written to `unrecorded.jsonl` and exports."""

    session: SessionRecord
    invocation: InvocationRecord | None
    start: RunStart
    end: RunEnd
    background: Background = NO_BACKGROUND


def from_document(document: Mapping[str, Any]) -> StoredRun:
    """Parse the record of one line, also of a later version. Raises ValueError."""
    try:
        record = codec.from_document(StoredRun, document)
    except ValueError as error:
        raise ValueError(f"this is not a run: {error}") from error
    wrong = ", ".join(wrong_values(record))
    if wrong:
        raise ValueError(f"this is not a run: {wrong}")
    return record
