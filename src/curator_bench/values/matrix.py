"""Values of a matrix: its files and entries, with what they say of clusters, datasets, requirements and sinks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from curator_bench.masking import Mask

Scalar: TypeAlias = str | int | float | bool | None


class Place(NamedTuple):
    """Place in a matrix file; line 0 means the whole file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class AxisValue:
    """One value of one axis. `text` is used in ids and folders; `fields` are the values of `{axis.key}`."""

    axis: str
    text: str
    value: Scalar
    fields: Mapping[str, Scalar] = field(default_factory=dict)
    named: bool = True
    """False if `include` added it to an existing combination: then it is not in the id and has no folder."""


@dataclass(frozen=True, slots=True)
class RaySettings:
    """The Ray cluster a run asks for; None leaves the choice to Ray."""

    num_cpus: float | None = None
    num_gpus: float | None = None
    memory: int | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    object_store_size: int | float | None = None
    """Bytes (int), a fraction of the machine's memory (float), or None for Ray's own default."""
    enable_object_spilling: bool = True
    include_dashboard: bool | None = None
    """None: only where the script needs it."""
    include_log_monitor: bool = False
    reuse: bool = False
    address: str | None = None
    start_retries: int = 2


@dataclass(frozen=True, slots=True)
class DaskSettings:
    """The Dask cluster that a Python benchmark asks for."""

    n_workers: int = 2
    threads_per_worker: int = 1
    memory_limit: str | int = "auto"
    """Of each worker: bytes, a size such as `1GiB`, or `auto`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further keys, for a provider of other clusters."""


BOUNDS = ("min_value", "max_value", "exact_value")
"""The keys of a requirement that a run's own metrics meet or not."""
GATES = ("max_regression", "max_drift")
"""The keys of a requirement that are judged by the history."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """Condition on one metric for the run to pass. Percentages are fractions (10 % is 0.1)."""

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
class Generate:
    """Script that generates a dataset on first use. Placeholders in `args` are not filled in yet."""

    script: str
    args: tuple[str, ...]
    timeout_s: float
    directories: tuple[str, ...] = ()
    """Folders its script may lie beside, as of an entry."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """One format of a dataset. Placeholders in `path` are not filled in yet."""

    name: str
    format: str
    path: str
    place: Place
    generate: Generate | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DataSetup:
    """A script that runs once per session, before the first entry."""

    name: str
    script: str
    script_base_dir: str | None
    args: tuple[str, ...]
    timeout_s: float
    env: Mapping[str, str]
    place: Place
    problems: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    """Folders its script may lie beside, as of an entry."""


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """The block of one sink. `problems` say why it is off (for instance an undefined variable)."""

    name: str
    settings: Mapping[str, Any]
    place: Place
    problems: tuple[str, ...] = ()
    places: Mapping[str, Place] = field(default_factory=dict, compare=False)
    """Place of each setting."""
    unset: frozenset[str] = frozenset()
    """Settings that name undefined variables. They are missing in `settings`."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A package under test. A matrix gives only its name; the rest is looked up where the run takes place."""

    package: str
    version: str | None = None
    commit: str | None = None
    dirty: bool | None = None

    @property
    def shown(self) -> str:
        """Name, version and commit in one line."""
        commit = f"@ {self.commit[:12]}{' (changed)' if self.dirty else ''}" if self.commit else ""
        return " ".join(part for part in (self.package, self.version, commit) if part)


@dataclass(frozen=True, slots=True)
class MatrixFile:
    """Settings shared by all entries of one file."""

    file: str
    directory: str
    results_dir: str | None = None
    artifacts_dir: str | None = None
    curator_repo_dir: str = ""
    paths: Mapping[str, str] = field(default_factory=dict)
    path_problems: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[tuple[str, str], ...] = ()
    """Host path and container path of every block of `paths`."""
    datasets: Mapping[tuple[str, str], Dataset] = field(default_factory=dict)
    data_setups: tuple[DataSetup, ...] = ()
    sinks: tuple[SinkSettings, ...] = ()
    subjects: tuple[Subject, ...] = ()
    gpu_stats_interval_s: float = 1.0
    gpu_stats_asked: bool = False
    """True if the file names the recorder: then each run has its file, even without a row."""
    run_reason: str | None = None
    viewer_url: str | None = None
    viewer_url_template: str | None = None
    cleanup_timeout_s: float | None = None
    min_timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One benchmark of the matrix, for one combination of its axes."""

    name: str
    place: Place
    file: MatrixFile
    script: str
    asv: str = ""
    """Folder of the asv suite that has this benchmark. `script` is then the file that defines it."""
    args: tuple[str, ...] = ()
    """Words of the command line; placeholders and ${VARIABLES} are not filled in yet."""
    axes: tuple[AxisValue, ...] = ()
    variant: str = ""
    """Part of the id in brackets; empty without axes."""
    folder: tuple[str, ...] = ()
    """Folders of this entry below the session's: its name, then one per axis value, safe for file systems."""
    marks: tuple[str, ...] = ()
    script_base_dir: str | None = None
    directories: tuple[str, ...] = ()
    """Folders of the files its script may lie beside: the one that names the script, and the matrix."""
    python: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Variables with secret values that their names do not reveal."""
    timeout_s: float = 7200.0
    repeat: int = 1
    warmup: int = 0
    retries: int = 0
    ray: RaySettings | None = RaySettings()
    delete_scratch: bool = True
    gpu_mem_use_warning_threshold: float | None = None
    requires: tuple[str, ...] = ()
    requires_programs: tuple[str, ...] = ()
    gpu_check: str | None = None
    requirements: tuple[Requirement, ...] = ()
    sink_data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    """Reasons why this entry cannot run (for instance an undefined variable); its verdict is then `error`."""

    @property
    def id(self) -> str:
        """Name of the entry in node ids, reports and the database."""
        return f"{self.name}[{self.variant}]" if self.variant else self.name


@dataclass(frozen=True, slots=True)
class Matrix:
    """All entries of all files of one invocation."""

    files: tuple[MatrixFile, ...] = ()
    entries: tuple[Entry, ...] = ()
    warnings: tuple[str, ...] = ()
    mask: Mask = field(default_factory=Mask)
