"""The values that cross rooms: frozen dataclasses of the standard library, picklable, without behaviour of a room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from curator_bench.failure_category import failure_category
from curator_bench.masking import Mask

Scalar: TypeAlias = str | int | float | bool | None

_INTERRUPTED = 2
"""The exit status of pytest when it was stopped."""
WHERE_SAID: Mapping[str, Any] = {"where_said": True}
"""Of a field that is left out of JSON where it says nothing."""
SUCCESS_METRIC = "is_success"
"""What a script says of itself."""


def means_success(said: Scalar) -> bool:
    """As an exit code would say it, `0 if is_success else 1`; but text and NaN, neither yes nor no, are none."""
    return bool(said) and not isinstance(said, str) and said == said


class Verdict(StrEnum):
    """What a run is (design: Words)."""

    PASSED = "passed"
    FAILED = "failed"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    ERROR = "error"
    INTERRUPTED = "interrupted"
    SKIPPED = "skipped"


class Cause(StrEnum):
    """What an `error` lies with: the machine (which another one may not have), or what was asked of it."""

    CONFIGURATION = "configuration"
    DATASET = "dataset"
    CLUSTER = "cluster"
    DISK = "disk"
    GPU = "gpu"
    NODE = "node"


class Place(NamedTuple):
    """Where something stands in a matrix file; line 0 means the file as a whole."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class AxisValue:
    """One value of one axis: `text` names it in ids and folders, `fields` are what `{axis.key}` reads."""

    axis: str
    text: str
    value: Scalar
    fields: Mapping[str, Scalar] = field(default_factory=dict)
    named: bool = True
    """False for what `include` added to a combination there was: it is no part of the id and has no folder."""


@dataclass(frozen=True, slots=True)
class RaySettings:
    """The Ray cluster one run asks for; None leaves the choice to Ray."""

    num_cpus: float | None = None
    num_gpus: float | None = None
    memory: int | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    object_store_size: int | float | None = None
    """Bytes (int), a fraction of the machine's memory (float), or None for Ray's own default."""
    enable_object_spilling: bool = True
    include_dashboard: bool = False
    include_log_monitor: bool = False
    reuse: bool = False
    address: str | None = None
    start_retries: int = 2


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one metric must satisfy for the run to pass; fractions are fractions (10 % is 0.1)."""

    metric: str
    min_value: float | None = None
    max_value: float | None = None
    exact_value: Scalar = None
    tolerance: float | None = None
    max_regression: float | None = None
    baseline: str = "previous"
    min_history: int = 5
    better: str | None = None
    min_effect: float = 0.03
    max_drift: float | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """What came of one bound of one requirement."""

    metric: str
    bound: str
    """The key of the requirement: `min_value`, `max_value`, `exact_value`, `max_regression`, `max_drift`."""
    limit: Scalar
    actual: Scalar
    met: bool | None
    """None is inconclusive: beyond its limit, but not certainly so. `note` says what would decide."""
    missing: bool = False
    """There is no such metric; `actual` is then None."""
    tolerance: float | None = None
    off_by: int | float | None = None
    """How far the metric is on the wrong side of the limit; None when the bound is met, or the two are not numbers."""
    off_by_fraction: float | None = None
    """The same as a fraction of the limit; None also where the limit is zero. For `max_regression` how much worse."""
    note: str = ""
    """Why the metric could not be compared, or what would decide; for a missing one the nearest names that exist."""
    better: str | None = None
    """Which direction is good, where the requirement says so."""
    says: str = ""
    """Of a gate: the word of its judgement, as it is shown everywhere."""

    @property
    def is_unmet(self) -> bool:
        """Beyond its limit for certain, or not comparable with it at all."""
        return self.met is False

    @property
    def is_inconclusive(self) -> bool:
        return self.met is None


@dataclass(frozen=True, slots=True)
class Generate:
    """The script that makes a dataset on first use. `args` are words with their placeholders still in."""

    script: str
    args: tuple[str, ...]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Dataset:
    """One format of one named dataset. `path` has its placeholders still in."""

    name: str
    format: str
    path: str
    place: Place
    generate: Generate | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DataSetup:
    """A script that runs once a session, before the first entry."""

    name: str
    script: str
    script_base_dir: str | None
    args: tuple[str, ...]
    timeout_s: float
    env: Mapping[str, str]
    place: Place
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """The block of one sink; `problems` say why it is off (for instance an undefined variable)."""

    name: str
    settings: Mapping[str, Any]
    place: Place
    problems: tuple[str, ...] = ()
    places: Mapping[str, Place] = field(default_factory=dict, compare=False)
    """Where each of the settings stands."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A package under test. A matrix knows its name only; where it runs, the rest is looked up."""

    package: str
    version: str | None = None
    commit: str | None = None
    dirty: bool | None = None

    @property
    def shown(self) -> str:
        """Its name, version and commit in one line."""
        commit = f"@ {self.commit[:12]}{' (changed)' if self.dirty else ''}" if self.commit else ""
        return " ".join(part for part in (self.package, self.version, commit) if part)


@dataclass(frozen=True, slots=True)
class MatrixFile:
    """What all entries of one collected file share."""

    file: str
    directory: str
    results_dir: str | None = None
    artifacts_dir: str | None = None
    curator_repo_dir: str = ""
    paths: Mapping[str, str] = field(default_factory=dict)
    path_problems: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[tuple[str, str], ...] = ()
    """(host path, container path) of every block of `paths`."""
    datasets: Mapping[tuple[str, str], Dataset] = field(default_factory=dict)
    data_setups: tuple[DataSetup, ...] = ()
    sinks: tuple[SinkSettings, ...] = ()
    subjects: tuple[Subject, ...] = ()
    gpu_stats_interval_s: float = 1.0
    run_reason: str | None = None
    viewer_url: str | None = None
    viewer_url_template: str | None = None
    cleanup_timeout_s: float | None = None
    min_timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One benchmark of the matrix, for one combination of its axes' values."""

    name: str
    place: Place
    file: MatrixFile
    script: str
    args: tuple[str, ...] = ()
    """The words of the command line, placeholders and ${VARIABLES} still in."""
    axes: tuple[AxisValue, ...] = ()
    variant: str = ""
    """The part of the id between the brackets; empty without axes."""
    folder: tuple[str, ...] = ()
    """The folders of this entry below the session's: its name, then one per axis value, safe for file systems."""
    marks: tuple[str, ...] = ()
    script_base_dir: str | None = None
    python: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Variables whose values are secret though their names do not say so."""
    timeout_s: float = 7200.0
    repeat: int = 1
    warmup: int = 0
    retries: int = 0
    ray: RaySettings | None = RaySettings()
    delete_scratch: bool = True
    gpu_mem_use_warning_threshold: float | None = None
    requires: tuple[str, ...] = ()
    gpu_check: str | None = None
    requirements: tuple[Requirement, ...] = ()
    sink_data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    """Why this entry cannot run (for instance an undefined variable); its verdict is then `error`."""

    @property
    def id(self) -> str:
        """The entry's name in node ids, reports and the database."""
        return f"{self.name}[{self.variant}]" if self.variant else self.name


@dataclass(frozen=True, slots=True)
class Matrix:
    """Every entry of every file that one invocation names."""

    files: tuple[MatrixFile, ...] = ()
    entries: tuple[Entry, ...] = ()
    warnings: tuple[str, ...] = ()
    mask: Mask = field(default_factory=Mask)


@dataclass(frozen=True, slots=True)
class DatasetNeed:
    """A dataset one run reads: where it is, and the command that makes it where it is missing."""

    name: str
    format: str
    path: str
    folder: str = ""
    """The folder its `generate` fills; the dataset is made anew when what made it is not `command` any more."""
    command: tuple[str, ...] = ()
    timeout_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class SetupNeed:
    """A data setup to be run once in the session before this run."""

    name: str
    command: tuple[str, ...]
    timeout_s: float
    env: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """All that `execution.run_entry` needs to know of a run; nothing is left to look up."""

    name: str
    """The entry's id: its name, with its axes' values in brackets."""
    session: str
    session_dir: str
    entry_dir: str
    python: str
    script: str
    args: tuple[str, ...]
    """Complete but for `{session_entry_dir}` and `{session}`, which differ from repeat to repeat."""
    working_dir: str
    uid: str = ""
    """Of this attempt, wherever it is written down: database, results.json, results.jsonl."""
    invocation: str = ""
    """Tells one invocation that joins a session from another."""
    artifacts_dir: str | None = None
    """Where logs, scratch, ray_cluster and artifacts go when not in `entry_dir`, which then links to it."""
    env: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 7200.0
    repeat: int = 1
    warmup: int = 0
    attempt: int = 1
    """Counted by whoever tries again; each attempt has a folder of its own."""
    ray: RaySettings | None = None
    delete_scratch: bool = True
    requires: tuple[str, ...] = ()
    datasets: tuple[DatasetNeed, ...] = ()
    data_setups: tuple[SetupNeed, ...] = ()
    subjects: tuple[str, ...] = ()
    gpu_stats_interval_s: float = 1.0
    gpu_mem_use_warning_threshold: float | None = None
    gpu_check: str | None = None
    samplers: tuple[str, ...] = ()
    """Samplers of your own, by name: an entry point, `module:Class`, or `./file.py:Class` beside the matrix."""
    cluster_provider: str = ""
    """What starts the cluster, by name as for samplers; empty for the one that the entry's `ray` block asks for."""
    problems: tuple[str, ...] = ()
    mask: Mask = field(default_factory=Mask)


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
    """What one run was. `verdict` is PASSED when the script ended well; requirements are judged by the caller."""

    name: str
    verdict: Verdict
    started_at: str
    """UTC, ISO 8601."""
    ended_at: str
    duration_s: float
    """The whole run with its cluster, monotonic; the script alone is the metric `exec_time_s`."""
    error: str = ""
    cause: Cause | None = None
    """Of an `error`: what it lies with."""
    exit_code: int | None = None
    command: tuple[str, ...] = ()
    log_path: str = ""
    log_tail: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Scalar] = field(default_factory=dict)
    repeats: tuple[Repeat, ...] = ()
    attempt: int = 1
    warnings: tuple[str, ...] = ()
    host: str = ""
    gpus: tuple[str, ...] = ()
    ray_version: str = ""
    ray_num_cpus: float | None = None
    ray_num_gpus: float | None = None
    confirming_s: float = 0.0
    """How long the runs took that only confirm the gates; counted with the last of them."""


@dataclass(frozen=True, slots=True)
class Session:
    """The session that an invocation of pytest joins, as that invocation found it."""

    name: str
    directory: str
    invocation: str = ""
    started_at: str = ""
    """UTC, ISO 8601; of this invocation."""
    runs_expected: int = 0
    reason: str = ""
    commit: str = ""
    branch: str = ""
    dirty: bool | None = None
    subjects: tuple[Subject, ...] = ()
    viewer_url: str = ""
    ci_run_url: str = ""
    host: str = ""
    environment: Mapping[str, Scalar] = field(default_factory=dict)
    """The machine and its software, nested names joined by dots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run that has started: which it is, and where it runs."""

    name: str
    """With the values of its axes in brackets; of a Python benchmark the part of its node id after `::`."""
    entry: str = ""
    """The name without brackets."""
    nodeid: str = ""
    uid: str = ""
    attempt: int = 1
    started_at: str = ""
    """UTC, ISO 8601."""
    session: str = ""
    invocation: str = ""
    file: str = ""
    """The file it stands in, from the rootdir, as the database knows it."""
    matrix: str = ""
    """The whole path of its matrix; empty for a Python benchmark."""
    axes: Mapping[str, str] = field(default_factory=dict)
    marks: tuple[str, ...] = ()
    definition_hash: str = ""
    """Runs are comparable when theirs are equal."""
    definition: Mapping[str, str] = field(default_factory=dict)
    """A short hash of each part of the definition."""
    directory: str = ""
    """The folder of its entry."""
    host: str = ""
    machine_id: str = field(default="", metadata=WHERE_SAID)
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord(Run):
    """A run that has ended and been judged: the one shape in which runs are reported, written, read and recorded.

    An entry may be run more than once, after an `error` or because more runs were asked for; each is a record, and the
    last one counts.
    """

    verdict: Verdict
    ended_at: str = ""
    duration_s: float = 0.0
    """The whole run with its cluster; the script alone is the metric `exec_time_s`."""
    is_last: bool = field(default=True, metadata=WHERE_SAID)
    """False for a run that another one of the same entry followed."""
    error: str = ""
    cause: Cause | None = None
    """Of an `error`: what it lies with."""
    exit_code: int | None = None
    command: tuple[str, ...] = ()
    log_path: str = ""
    shown_log_path: str = field(default="", metadata=WHERE_SAID)
    """The same for people: inside a container, where the host has it. Sinks are given it."""
    log_tail: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Scalar] = field(default_factory=dict)
    repeats: tuple[Repeat, ...] = ()
    requirements: tuple[Check, ...] = ()
    warnings: tuple[str, ...] = ()
    ray_version: str = ""
    ray_num_cpus: float | None = None
    ray_num_gpus: float | None = None
    confirming_s: float = 0.0
    """How long the runs took that only confirm the gates; counted with the last of them."""
    phases: Mapping[str, str] = field(default_factory=dict, metadata=WHERE_SAID)
    """Of a Python benchmark: what pytest made of its set-up, call and teardown."""
    columns: Mapping[str, Scalar] = field(default_factory=dict, metadata=WHERE_SAID)
    """Of a Python benchmark: what it set on its row of the database."""
    sink_data: Mapping[str, Any] = field(default_factory=dict, metadata=WHERE_SAID)
    """What the entry's `sink_data` has for the sink that is given the record."""
    earlier: tuple[RunRecord, ...] = field(default=(), metadata=WHERE_SAID)
    """The runs of this entry before this one, in this invocation."""

    @property
    def passed(self) -> bool:
        return self.verdict is Verdict.PASSED

    @property
    def title(self) -> str:
        """Its name; with the attempt, if another one followed."""
        return self.name if self.is_last else f"{self.name} (attempt {self.attempt})"

    @property
    def measured_s(self) -> float:
        """How long the script ran, without cluster and warm-up; the whole run where nobody measured that."""
        measured = self.metrics.get("exec_time_s")
        return float(measured) if isinstance(measured, int | float) else self.duration_s

    @property
    def category(self) -> str | None:
        """The category of its failure (docs/files.md); None where it did not fail."""
        return failure_category(self.verdict, self.error, self.log_tail, self.cause)

    @property
    def folder(self) -> Path:
        """The folder with the files of this attempt; those of the first stand in `directory` itself."""
        return Path(self.directory) if self.attempt == 1 else Path(self.directory, f"attempt_{self.attempt}")

    @property
    def unmet(self) -> tuple[Check, ...]:
        """The requirements that were not met."""
        return tuple(check for check in self.requirements if check.is_unmet)

    @property
    def inconclusive(self) -> tuple[Check, ...]:
        """The gates that could not be decided; the `note` of each says what would decide it."""
        return tuple(check for check in self.requirements if check.is_inconclusive)


@dataclass(frozen=True, slots=True)
class Summary:
    """The end of an invocation."""

    counts: Mapping[str, int]
    """Its runs by verdict."""
    started_at: str
    ended_at: str
    duration_s: float
    exit_status: int | None = None
    """Of pytest; None where it was killed."""

    @property
    def interrupted(self) -> bool:
        return self.exit_status in (None, _INTERRUPTED) or bool(self.counts.get(Verdict.INTERRUPTED))
