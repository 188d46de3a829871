"""Values of runs: what is to run, what came of it, and the record of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from curator_bench.masking import Mask
from curator_bench.values.failure_category import failure_category
from curator_bench.values.matrix import RaySettings, Scalar, Subject
from curator_bench.values.open_finding import OpenFinding
from curator_bench.values.profiles import Profile
from curator_bench.values.stages import Stage

_INTERRUPTED = 2
"""Exit status of pytest when it was interrupted."""
WHERE_SAID: Mapping[str, Any] = {"where_said": True}
"""Metadata of a field that is omitted from JSON if it has its default value."""
MACHINE = "machine."
"""Beginning of the metrics that say what the machine did during a run. They explain others, and are never compared."""
SUCCESS_METRIC = "is_success"
"""Metric by which a script reports its own success."""


def means_success(said: Scalar) -> bool:
    """True if the value means success, as in `0 if is_success else 1`. Text and NaN do not."""
    return bool(said) and not isinstance(said, str) and said == said


class Verdict(StrEnum):
    """Verdict of a run."""

    PASSED = "passed"
    FAILED = "failed"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    ERROR = "error"
    INTERRUPTED = "interrupted"
    SKIPPED = "skipped"


class Cause(StrEnum):
    """Cause of an `error`: the machine (another one may be fine), or the request."""

    CONFIGURATION = "configuration"
    DATASET = "dataset"
    CLUSTER = "cluster"
    DISK = "disk"
    GPU = "gpu"
    NODE = "node"


class Hunt(StrEnum):
    """Purpose of a run that is not part of its entry's history."""

    BISECT = "bisect"
    BISECT_STEP = "bisect-step"
    GIT_BISECT = "git-bisect"
    AB = "ab"
    PROFILE = "profile"


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one bound of a requirement."""

    metric: str
    bound: str
    """Key of the requirement: `min_value`, `max_value`, `exact_value`, `max_regression`, `max_drift`."""
    limit: Scalar
    actual: Scalar
    met: bool | None
    """None if inconclusive: beyond the limit, but not certainly so. `note` says what would decide it."""
    missing: bool = False
    """True if the run has no such metric; `actual` is then None."""
    tolerance: float | None = None
    off_by: int | float | None = None
    """Distance beyond the limit; None if the bound is met or the values are not numbers."""
    off_by_fraction: float | None = None
    """The distance as a fraction of the limit; None also if the limit is zero. For `max_regression`, how much worse."""
    note: str = ""
    """Reason why it could not be compared, what would decide it, or the nearest names of a missing metric."""
    better: str | None = None
    """`less` or `more`, if the requirement says which is better."""
    says: str = ""
    """For a gate, the word of its result, as shown everywhere."""

    @property
    def is_unmet(self) -> bool:
        """True if certainly beyond the limit, or not comparable with it."""
        return self.met is False

    @property
    def is_inconclusive(self) -> bool:
        return self.met is None


@dataclass(frozen=True, slots=True)
class DatasetNeed:
    """A dataset of a run: its path, and the command that generates it if missing."""

    name: str
    format: str
    path: str
    folder: str = ""
    """Folder that `generate` fills. The dataset is generated again if `command` has changed."""
    command: tuple[str, ...] = ()
    timeout_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class SetupNeed:
    """A data setup to run once in the session before this run."""

    name: str
    command: tuple[str, ...]
    timeout_s: float
    env: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Profiling:
    """An extra run under a profiler: its script runs once more, and nothing it measures counts."""

    profiler: str
    """A name: `py-spy`, `memray`, an entry point, `module:Class`, or `./file.py:Class` beside the matrix."""
    number: int = 1
    """Number of the extra run; each has its own folder, `profile_1` and so on, in that of the run it belongs to."""
    native: bool = False
    """True if functions of native code are asked for, too."""
    after: str = ""
    """End of a frame's name. The frame, and those it was called by, are left out of stacks that have it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Complete description of a run for `execution.run_entry`; nothing else is looked up."""

    name: str
    """Id of the entry: its name, with its axis values in brackets."""
    session: str
    session_dir: str
    entry_dir: str
    python: str
    script: str
    args: tuple[str, ...]
    """Complete except for `{session_entry_dir}` and `{session}`, which differ from repeat to repeat."""
    working_dir: str
    uid: str = ""
    """Uid of this attempt in the database, results.json and results.jsonl."""
    invocation: str = ""
    """Id of the invocation within its session."""
    artifacts_dir: str | None = None
    """Folder for logs, scratch, ray_cluster and artifacts if not `entry_dir`, which then links to it."""
    env: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 7200.0
    repeat: int = 1
    warmup: int = 0
    attempt: int = 1
    """Number of the attempt; each has its own folder."""
    ray: RaySettings | None = None
    delete_scratch: bool = True
    requires: tuple[str, ...] = ()
    requires_programs: tuple[str, ...] = ()
    datasets: tuple[DatasetNeed, ...] = ()
    data_setups: tuple[SetupNeed, ...] = ()
    subjects: tuple[str, ...] = ()
    gpu_stats_interval_s: float = 1.0
    gpu_stats_asked: bool = False
    gpu_mem_use_warning_threshold: float | None = None
    gpu_check: str | None = None
    samplers: tuple[str, ...] = ()
    """Your own samplers, by name: an entry point, `module:Class`, or `./file.py:Class` beside the matrix."""
    cluster_provider: str = ""
    """Provider of the cluster, named like samplers; empty for the one the entry's `ray` block asks for."""
    skip_code: int | None = None
    """Exit code by which the script says that it cannot run here."""
    problems: tuple[str, ...] = ()
    mask: Mask = field(default_factory=Mask)
    profiling: Profiling | None = None
    """Set for an extra run under a profiler; None for a run that counts."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """One measured execution of a run's script."""

    index: int
    exit_code: int | None
    exec_time_s: float
    metrics: Mapping[str, Scalar] = field(default_factory=dict)
    ended_at: str = ""
    """UTC, ISO 8601."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of one run. `verdict` is PASSED if the script succeeded; the caller judges the requirements."""

    name: str
    verdict: Verdict
    started_at: str
    """UTC, ISO 8601."""
    ended_at: str
    duration_s: float
    """Duration of the whole run with its cluster (monotonic). The script alone is the metric `exec_time_s`."""
    error: str = ""
    cause: Cause | None = None
    """Cause of an `error`."""
    exit_code: int | None = None
    command: tuple[str, ...] = ()
    log_path: str = ""
    log_tail: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Scalar] = field(default_factory=dict)
    repeats: tuple[Repeat, ...] = ()
    samples: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Values of a metric that one execution measured several times."""
    attempt: int = 1
    warnings: tuple[str, ...] = ()
    host: str = ""
    gpus: tuple[str, ...] = ()
    ray_version: str = ""
    ray_num_cpus: float | None = None
    ray_num_gpus: float | None = None
    confirming_s: float = 0.0
    """Seconds spent in runs that only confirm the gates, counted with the last of them."""
    changed: tuple[str, ...] = ()
    """What changed where a metric got worse, in lines: between the last run before and the first after."""
    stages: tuple[Stage, ...] = ()
    """Its stages, in the order in which they began. With repeats, the medians of their figures."""
    profiles: tuple[Profile, ...] = ()
    """For an extra run, what its profiler found."""


@dataclass(frozen=True, slots=True)
class CommitPlace:
    """The place of a commit in its repository, to put the runs of commits in order."""

    depth: int
    """Number of commits up to this one, counting first parents only."""
    time: float
    """When it was committed, in seconds since 1970."""
    branches: tuple[str, ...] = ()
    """The branch of the checkout; of a detached one, all branches that contain the commit."""


@dataclass(frozen=True, slots=True)
class Session:
    """The session of an invocation, as that invocation found it."""

    name: str
    directory: str
    invocation: str = ""
    started_at: str = ""
    """Start of this invocation: UTC, ISO 8601."""
    runs_expected: int = 0
    entries: tuple[str, ...] = field(default=(), metadata=WHERE_SAID)
    """Names of the entries this invocation was asked to run, each with its axis values."""
    reason: str = ""
    commit: str = ""
    branch: str = ""
    dirty: bool | None = None
    place: CommitPlace | None = field(default=None, metadata=WHERE_SAID)
    """Place of the commit; None if it is unknown, as in a shallow checkout."""
    subjects: tuple[Subject, ...] = ()
    viewer_url: str = ""
    ci_run_url: str = ""
    host: str = ""
    hunt: str = field(default="", metadata=WHERE_SAID)
    """Purpose of its runs, as in `Hunt`; empty if they are history."""
    environment: Mapping[str, Scalar] = field(default_factory=dict)
    """The machine and its software; nested names are joined by dots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run that has started: its identity and where it runs."""

    name: str
    """Name with its axis values in brackets; for a Python benchmark, the part of the node id after `::`."""
    entry: str = ""
    """Name without brackets."""
    nodeid: str = ""
    uid: str = ""
    attempt: int = 1
    started_at: str = ""
    """UTC, ISO 8601."""
    session: str = ""
    invocation: str = ""
    file: str = ""
    """File that defines it, relative to the rootdir, as in the database."""
    matrix: str = ""
    """Absolute path of its matrix; empty for a Python benchmark."""
    axes: Mapping[str, str] = field(default_factory=dict)
    marks: tuple[str, ...] = ()
    definition_hash: str = ""
    """Runs with equal hashes are comparable."""
    definition: Mapping[str, str] = field(default_factory=dict)
    """Short hash of each part of the definition."""
    directory: str = ""
    """Folder of its entry."""
    host: str = ""
    machine_id: str = field(default="", metadata=WHERE_SAID)
    hunt: str = field(default="", metadata=WHERE_SAID)
    """Purpose of the run, as in `Hunt`; empty if it is history."""
    gpus: tuple[str, ...] = ()
    sink_data: Mapping[str, Any] = field(default_factory=dict, metadata=WHERE_SAID)
    """The entry's `sink_data` for the sink it is reported to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord(Run):
    """A run that has ended and been judged, in the one form that is reported, written, read and recorded.

    An entry may run more than once, after an `error` or because more runs were requested. Each run is a record, and the
    last one counts.
    """

    verdict: Verdict
    ended_at: str = ""
    duration_s: float = 0.0
    """Duration of the whole run with its cluster. The script alone is the metric `exec_time_s`."""
    is_last: bool = field(default=True, metadata=WHERE_SAID)
    """False if another run of the same entry followed."""
    error: str = ""
    cause: Cause | None = None
    """Cause of an `error`."""
    exit_code: int | None = None
    command: tuple[str, ...] = ()
    log_path: str = ""
    shown_log_path: str = field(default="", metadata=WHERE_SAID)
    """Log path for people: inside a container, the path on the host. Sinks get this one."""
    log_tail: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Scalar] = field(default_factory=dict)
    repeats: tuple[Repeat, ...] = ()
    samples: Mapping[str, tuple[float, ...]] = field(default_factory=dict, metadata=WHERE_SAID)
    """Values of a metric that one execution measured several times."""
    requirements: tuple[Check, ...] = ()
    warnings: tuple[str, ...] = ()
    ray_version: str = ""
    ray_num_cpus: float | None = None
    ray_num_gpus: float | None = None
    confirming_s: float = 0.0
    """Seconds spent in runs that only confirm the gates, counted with the last of them."""
    changed: tuple[str, ...] = field(default=(), metadata=WHERE_SAID)
    """What changed where a metric got worse, in lines: between the last run before and the first after."""
    stages: tuple[Stage, ...] = field(default=(), metadata=WHERE_SAID)
    """Its stages, in the order in which they began. With repeats, the medians of their figures."""
    disturbed: str | None = field(default=None, metadata=WHERE_SAID)
    """What disturbed the run; such a run is no history. Empty if nothing did, None if it is not known."""
    phases: Mapping[str, str] = field(default_factory=dict, metadata=WHERE_SAID)
    """For a Python benchmark, the outcome of its set-up, call and teardown in pytest."""
    columns: Mapping[str, Scalar] = field(default_factory=dict, metadata=WHERE_SAID)
    """For a Python benchmark, the columns it set on its row of the database."""
    earlier: tuple[RunRecord, ...] = field(default=(), metadata=WHERE_SAID)
    """Earlier runs of this entry in this invocation."""

    @property
    def passed(self) -> bool:
        return self.verdict is Verdict.PASSED

    @property
    def title(self) -> str:
        """Name; with the attempt, if another run followed."""
        return self.name if self.is_last else f"{self.name} (attempt {self.attempt})"

    @property
    def measured_s(self) -> float:
        """Duration of the script without cluster and warm-up; the whole run's duration if that was not measured."""
        measured = self.metrics.get("exec_time_s")
        return float(measured) if isinstance(measured, int | float) else self.duration_s

    @property
    def category(self) -> str | None:
        """Category of its failure (docs/files.md); None if it did not fail."""
        return failure_category(self.verdict, self.error, self.log_tail, self.cause)

    @property
    def folder(self) -> Path:
        """Folder of this attempt's files; the first attempt's files are in `directory` itself."""
        return Path(self.directory) if self.attempt == 1 else Path(self.directory, f"attempt_{self.attempt}")

    @property
    def unmet(self) -> tuple[Check, ...]:
        """Requirements that were not met."""
        return tuple(check for check in self.requirements if check.is_unmet)

    @property
    def inconclusive(self) -> tuple[Check, ...]:
        """Inconclusive gates; the `note` of each says what would decide it."""
        return tuple(check for check in self.requirements if check.is_inconclusive)


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of an invocation at its end."""

    counts: Mapping[str, int]
    """Number of its runs by verdict."""
    started_at: str
    ended_at: str
    duration_s: float
    exit_status: int | None = None
    """Exit status of pytest; None if it was killed."""
    findings: tuple[OpenFinding, ...] = ()
    """Open regressions of the entries that its gates judged, the newest first."""

    @property
    def interrupted(self) -> bool:
        return self.exit_status in (None, _INTERRUPTED) or bool(self.counts.get(Verdict.INTERRUPTED))
