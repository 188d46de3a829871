"""The models that validate every block of a matrix. docs/matrix-keys.md is made from their field descriptions."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from curator_bench.matrix import placeholders, viewer
from curator_bench.matrix.scalars import resolve_plain
from curator_bench.matrix.tree import Filled

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(B|[KMGT]i?B)\s*\Z", re.IGNORECASE)
_POWERS = {"B": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_VARIABLE = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
_PERCENT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*\Z")
_FORBIDDEN_IN_NAMES = re.compile(r"[\x00-\x1f\x7f\[\]]|::")
_MARK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*\Z")
_WORDS_OF_MARK_EXPRESSIONS = frozenset(["and", "or", "not", "True", "False", "None"])
_LEAST_OF_A_RESOURCE, _MOST_OF_A_RESOURCE = 0.0001, 100e12
_RESOURCES_WITH_KEYS = {
    "CPU": "the key num_cpus",
    "GPU": "the key num_gpus",
    "memory": "the key memory, beside resources",
    "object_store_memory": "the key object_store_size",
}
_MARKS_WITH_ARGUMENTS = frozenset(["bench_matrix", "filterwarnings", "parametrize", "timeout", "usefixtures"])


def as_text(value: Any) -> Any:
    """Convert a number or truth value of YAML to the text that was meant."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else value


def _as_argument(value: Any) -> Any:
    value = as_text(value)
    if isinstance(value, str) and "\0" in value:
        raise ValueError("expected text without NUL characters")
    return value


def _as_name(value: Any) -> Any:
    value = as_text(value)
    if isinstance(value, str):
        if not value:
            raise ValueError("expected a name")
        if value != value.strip():
            raise ValueError("expected a name without spaces around it")
        if _FORBIDDEN_IN_NAMES.search(value):
            raise ValueError("expected a name without [, ], :: and control characters")
    return value


def _as_placeholder_name(value: Any) -> Any:
    value = as_text(value)
    if isinstance(value, str) and value in placeholders.RESERVED:
        raise ValueError("this is the name of a placeholder; choose another name")
    if isinstance(value, str) and not placeholders.NAME.match(value):
        raise ValueError("expected a letter or _, then letters, digits, _ and -, because {NAME} is a placeholder")
    return value


def _as_dataset_name(value: Any) -> Any:
    value = _as_name(value)
    if isinstance(value, str) and not {",", "{", "}"}.isdisjoint(value):
        raise ValueError("expected a name without , { and }, because {dataset:NAME,FORMAT} is a placeholder")
    return value


def _as_mark(value: Any) -> Any:
    value = as_text(value)
    if isinstance(value, str) and (not _MARK.match(value) or value in _WORDS_OF_MARK_EXPRESSIONS):
        raise ValueError("expected a pytest mark: letters, digits and _ . + - after a letter or digit")
    if isinstance(value, str) and value in _MARKS_WITH_ARGUMENTS:
        raise ValueError(f"the mark {value} needs arguments, which cannot be given here")
    return value


def _as_variable_name(value: Any) -> Any:
    if isinstance(value, str) and (not value or "=" in value or "\0" in value):
        raise ValueError("expected the name of an environment variable, which has no = in it")
    return value


def _as_secret(value: Any) -> Any:
    if isinstance(value, str) and not _VARIABLE.match(value):
        near = re.search(r"[A-Za-z_]\w*", value)
        raise ValueError(f"expected the name of an environment variable{f': {near[0]}' if near else ''}")
    return value


def _as_exact_value(value: Any) -> Any:
    if isinstance(value, Filled):
        resolved = resolve_plain(value)
        value = str(value) if resolved is None else resolved
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("expected a finite number, true, false or text")
    return value


def _as_bytes(value: Any) -> Any:
    if isinstance(value, str) and (match := _SIZE.match(value)):
        unit = match[2].upper()
        base = 1024 if "I" in unit else 1000
        return int(float(match[1]) * base ** _POWERS[unit[0]])
    if isinstance(value, str):
        raise ValueError("expected a number of bytes, or a size such as 8GiB or 500MB")
    return value


def _as_store_size(value: Any) -> Any:
    value = resolve_plain(value) if isinstance(value, Filled) else value
    size = _as_bytes(value) if isinstance(value, str) and _SIZE.match(value) else value
    is_bytes = type(size) is int and size > 1
    if size == "default" or is_bytes or (type(size) is float and 0 < size <= 1):
        return size
    raise ValueError(
        "expected a number of bytes, a size such as 8GiB, a fraction of the memory such as 0.3, or default"
    )


def _as_fraction(value: Any) -> Any:
    if isinstance(value, str):
        if not (match := _PERCENT.match(value)):
            raise ValueError("expected a share such as 10% or 0.1")
        return float(match[1]) / 100
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 1:
        meant = f"{value}% or {value / 100}" if math.isfinite(value) else "10% or 0.1"
        raise ValueError(f"expected a share such as {meant}")
    return value


def _as_amount(value: float) -> float:
    """Check an amount of a resource. Ray counts in ten-thousandths."""
    if 0 < value < _LEAST_OF_A_RESOURCE:
        raise ValueError(f"expected 0 or at least {_LEAST_OF_A_RESOURCE}, the least that Ray knows")
    return value


def _as_gpus(value: float) -> float:
    if value > 1 and value % 1:
        raise ValueError("expected a whole number, or a share of one GPU such as 0.5")
    return _as_amount(value)


def _as_resource_name(value: Any) -> Any:
    if isinstance(value, str) and value in _RESOURCES_WITH_KEYS:
        raise ValueError(f"expected the name of a custom resource; for this one there is {_RESOURCES_WITH_KEYS[value]}")
    return value


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_as_argument)]
Name = Annotated[str, BeforeValidator(_as_name)]
PlaceholderName = Annotated[str, BeforeValidator(_as_placeholder_name)]
DatasetName = Annotated[str, BeforeValidator(_as_dataset_name)]
Mark = Annotated[str, BeforeValidator(_as_mark)]
Texts = Annotated[list[Text], BeforeValidator(_as_list)]
Marks = Annotated[list[Mark], BeforeValidator(_as_list)]
Secrets = Annotated[list[Annotated[str, BeforeValidator(_as_secret)]], BeforeValidator(_as_list)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False, le=10**8)]
SecondsOrNone = Annotated[float, Field(ge=0, allow_inf_nan=False, le=10**8)]
Count = Annotated[int, Field(ge=0, le=10_000)]
Amount = Annotated[float, Field(ge=0, le=_MOST_OF_A_RESOURCE, allow_inf_nan=False), AfterValidator(_as_amount)]
Gpus = Annotated[float, Field(ge=0, le=_MOST_OF_A_RESOURCE, allow_inf_nan=False), AfterValidator(_as_gpus)]
ResourceName = Annotated[str, BeforeValidator(_as_resource_name)]
Bytes = Annotated[int, BeforeValidator(_as_bytes), Field(gt=0)]
Fraction = Annotated[float, BeforeValidator(_as_fraction), Field(ge=0, allow_inf_nan=False)]
StoreSize = Annotated[int | float | Literal["default"], BeforeValidator(_as_store_size)]
ExactValue = Annotated[bool | int | float | str, BeforeValidator(_as_exact_value)]
Environment = dict[Annotated[str, BeforeValidator(_as_variable_name)], Text]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class RequirementBlock(_Model):
    """A condition on one metric."""

    metric: Name = Field(description="The name of the metric.")
    min_value: float | None = Field(None, description="At least this.", allow_inf_nan=False)
    max_value: float | None = Field(None, description="At most this.", allow_inf_nan=False)
    exact_value: ExactValue | None = Field(None, description="Exactly this.")
    tolerance: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="How far from `exact_value` is still exact."
    )
    max_regression: Fraction | None = Field(None, description="At most this much worse than its history: `10%` or 0.1.")
    max_drift: Fraction | None = Field(
        None,
        description="At most this much worse by drift, a slow change: `15%`.",
    )
    baseline: Text = Field(
        "previous", description="The runs to compare with: `previous`, a branch, a session or a commit."
    )
    min_history: Annotated[int, Field(ge=1)] = Field(
        5, description="With fewer earlier runs, the gate says `no history`, and never fails."
    )
    better: Literal["less", "more"] | None = Field(
        None, description="Whether less or more is better; known for many metric names."
    )
    min_effect: Fraction = Field(0.03, description="A change smaller than this is no regression.")

    @model_validator(mode="after")
    def _bounds_make_sense(self) -> RequirementBlock:
        has_range = self.min_value is not None or self.max_value is not None
        has_gate = self.max_regression is not None or self.max_drift is not None
        if self.exact_value is None and not has_range and not has_gate:
            raise ValueError("has no bound; expected min_value, max_value, exact_value, max_regression or max_drift")
        if self.exact_value is not None and has_range:
            raise ValueError("exact_value conflicts with min_value or max_value; expected one or the other")
        if self.min_value is not None and self.max_value is not None and self.max_value < self.min_value:
            raise ValueError(f"max_value {self.max_value:g} is below min_value {self.min_value:g}")
        if self.tolerance is not None and (self.exact_value is None or isinstance(self.exact_value, bool | str)):
            raise ValueError("tolerance goes with a number in exact_value")
        return self


class RayBlock(_Model):
    """The Ray cluster a run gets; `ray: false` means none."""

    num_cpus: Amount | None = Field(None, description="CPUs the cluster reports; by default those of the machine.")
    num_gpus: Gpus | None = Field(None, description="GPUs the cluster reports; by default those of the machine.")
    memory: Bytes | None = Field(None, description="Memory for tasks, in bytes or as a size (`8GiB`).")
    resources: dict[ResourceName, Amount] = Field(
        default_factory=dict, description="Custom resources and their amounts."
    )
    object_store_size: StoreSize | None = Field(
        None, description="The same key as on the entry; this value takes precedence."
    )
    enable_object_spilling: bool = Field(True, description="Allow a full object store to spill to disk.")
    include_dashboard: bool | None = Field(
        None, description="Start Ray's dashboard, on loopback; by default only for scripts that run on Xenna."
    )
    include_log_monitor: bool = Field(False, description="Start Ray's log monitor.")
    reuse: bool = Field(False, description="Share one cluster among all entries with the same `ray` block.")
    address: Text | None = Field(None, description="Use this cluster instead of starting one.")
    start_retries: Count = Field(2, description="Further tries when the cluster does not start.")


class PathBlock(_Model):
    """A named directory, `{NAME}` in arguments, with another path inside a container."""

    name: PlaceholderName = Field(description="The placeholder's name.")
    host_path: Text = Field(description="Its path on the machine.")
    container_path: Text | None = Field(None, description="Its path in the container; default `/MOUNT` + host path.")


class FormatBlock(_Model):
    """One format of a dataset."""

    type: DatasetName = Field(description="The format's name, as in `{dataset:NAME,FORMAT}`.")
    path: Text = Field(description="Its path; may contain `{NAME}` of `paths`.")


class GenerateBlock(_Model):
    """The generator of a missing dataset."""

    script: Text = Field(description="The script; it is searched for like the script of an entry.")
    args: Text = Field("", description="Its arguments; `{dataset_dir}` is the folder to fill.")
    timeout_s: Seconds = Field(3600, description="Seconds it may take.")


class DatasetBlock(_Model):
    """A dataset in one or more formats."""

    name: DatasetName = Field(description="The dataset's name.")
    formats: list[FormatBlock] = Field(min_length=1, description="Its formats and their paths.")
    generate: GenerateBlock | None = Field(None, description="How to generate it on first use.")


class DataSetupBlock(_Model):
    """A script that runs once per session, before the first entry."""

    name: Name = Field(description="The name of its folder below `data_setup/`.")
    script: Text = Field(
        description="The script; it is searched for like the script of an entry, and in `data_prep/` beside the file."
    )
    script_base_dir: Text | None = Field(None, description="Where to look for the script first.")
    args: Text = Field("", description="Its arguments.")
    env: Environment = Field(default_factory=dict, description="Environment variables for it (or `environment`).")
    timeout_s: Seconds | None = Field(None, description="Seconds it may take.")
    enabled: bool = True


class GpuStatsBlock(_Model):
    """The recorder that writes `gpustats.csv`."""

    interval_s: SecondsOrNone = Field(1.0, description="Seconds between two rows; 0 switches it off.")


class SubjectBlock(_Model):
    """A package under test."""

    package: Name = Field(description="The name of the installed distribution or module.")


class EntryBlock(_Model):
    """One benchmark."""

    name: Name = Field(description="The entry's name, unique in the session.")
    script: Text = Field(description="The program: absolute, in script_base_dir, beside this file, or in `scripts/`.")
    script_base_dir: Text | None = Field(None, description="Where to look for the script first.")
    asv: Text | None = Field(
        None,
        description="A folder of benchmarks for asv, or its `asv.conf.json`, instead of name, script, args and matrix:"
        " [each benchmark becomes an entry](from-asv.md).",
    )
    bench: Text | None = Field(
        None, description="Only the benchmarks of `asv` whose names match this regular expression."
    )
    not_bench: Text | None = Field(None, description="Not those of them whose names match this regular expression.")
    args: Text = Field("", description="Arguments: split by shell rules, then placeholders are replaced in each word.")
    python: Text | None = Field(None, description="The interpreter; pytest's own by default.")
    enabled: bool = Field(True, description="false removes the entry.")
    marks: Marks = Field(default_factory=list, description="pytest marks, beside those of the file.")
    matrix: Any = Field(None, description="Axes: names and their values.")
    exclude: Any = Field(None, description="Combinations of axis values to leave out.")
    include: Any = Field(None, description="Combinations to add, or extra values for some combinations.")
    env: Environment = Field(default_factory=dict, description="Environment variables (or `environment`).")
    secrets: Secrets = Field(default_factory=list, description="Further variables whose values are masked everywhere.")
    timeout_s: Seconds | None = Field(None, description="The longest time one execution of the script may take.")
    repeat: Annotated[int, Field(ge=1, le=10_000)] = Field(1, description="Measured executions; medians count.")
    warmup: Count = Field(0, description="Unmeasured executions before them.")
    retries: Count = Field(0, description="Further attempts, only after an `error`.")
    ray: RayBlock | bool | None = Field(None, description="The cluster, merged over the file's `ray`; false: none.")
    object_store_size: StoreSize | None = Field(
        None, description="Ray's object store: bytes, a fraction of memory, or `default`."
    )
    delete_scratch: bool | None = Field(None, description="Remove `scratch/` afterwards.")
    gpu_mem_use_warning_threshold: Fraction | None = Field(
        None, description="Warn if a larger share of a GPU's memory is in use before or after the run."
    )
    requires: Texts = Field(
        default_factory=list, description="Modules the script needs; without them the entry is skipped."
    )
    requires_programs: Texts = Field(
        default_factory=list,
        description="Programs the script needs, in `PATH` or beside its Python; without them the entry is skipped.",
    )
    gpu_check: Text | None = Field(None, description="A script that checks whether a GPU is fit for this entry.")
    requirements: list[RequirementBlock] = Field(default_factory=list, description="Conditions on its metrics.")
    sink_data: list[dict[str, Any]] = Field(default_factory=list, description="Data for each sink, by `name`.")


class FileBlock(_Model):
    """A matrix file as a whole."""

    results_dir: Text | None = Field(None, description="The folder for sessions; `--bench-results` takes precedence.")
    artifacts_dir: Text | None = Field(
        None, description="Another folder for logs, scratch and artifacts; the folders of runs link to it."
    )
    script_base_dir: Text | None = Field(None, description="Where to look for scripts first, for every entry.")
    marks: Marks = Field(default_factory=list, description="pytest marks on every entry.")
    env: Environment = Field(default_factory=dict, description="Environment variables for every script.")
    secrets: Secrets = Field(
        default_factory=list,
        description="Variables whose values are masked everywhere; needless for names such as `HF_TOKEN`.",
    )
    default_timeout_s: Seconds | None = Field(None, description="Default for `timeout_s` of the entries.")
    timeout_s: Seconds | None = Field(None, description="The same as `default_timeout_s`.")
    max_timeout_s: Seconds | None = Field(None, description="No entry's `timeout_s` may be above this.")
    cleanup_timeout_s: SecondsOrNone | None = Field(
        None, description="For `curator-bench jobs`: added to the `timeout_s` of each entry of a job."
    )
    min_timeout_s: SecondsOrNone | None = Field(
        None, description="For `curator-bench jobs`: the shortest timeout of a job, without its set-up."
    )
    delete_scratch: bool | None = Field(None, description="Default for the entries.")
    object_store_size: StoreSize | None = Field(None, description="Default for the entries.")
    gpu_mem_use_warning_threshold: Fraction | None = Field(None, description="Default for the entries.")
    gpu_stats_recorder: GpuStatsBlock = Field(GpuStatsBlock(), description="The recorder of `gpustats.csv`.")
    run_reason: Text | None = Field(None, description="The reason for the session; `--bench-reason` takes precedence.")
    viewer_url: Text | None = Field(None, description="URL at which the session can be viewed.")
    viewer_url_template: Text | None = Field(
        None, description="The same URL with placeholders such as `{session_name}`."
    )
    subjects: list[Name | SubjectBlock] = Field(default_factory=list, description="Packages under test.")
    ray: RayBlock | bool | None = Field(None, description="Defaults for the entries' `ray`.")
    paths: list[PathBlock] = Field(default_factory=list, description="Named directories.")
    datasets: list[DatasetBlock] = Field(default_factory=list, description="Datasets and their paths.")
    data_setups: list[DataSetupBlock] = Field(default_factory=list, description="Scripts that run once per session.")
    sinks: list[dict[str, Any]] = Field(
        default_factory=list, description="Places that results are reported to, by `name`."
    )
    entries: list[Any] = Field(default_factory=list, description="The benchmarks.")

    @field_validator("viewer_url_template")
    @classmethod
    def _one_viewer(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("viewer_url") is not None:
            raise ValueError("conflicts with viewer_url; expected only one of the two")
        if value is not None and (wrong := viewer.wrong_with(value)):
            raise ValueError(f"has an {wrong}")
        return value
