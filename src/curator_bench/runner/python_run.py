"""The run of a benchmark written in Python: what its fixtures measured and how it ended, as a row and as a report."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import textwrap
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from curator_bench.collection import BENCHMARKS
from curator_bench.execution.files import strict
from curator_bench.masking import is_secret_name, masked
from curator_bench.matrix import definition_hash
from curator_bench.matrix.definition import function_hash
from curator_bench.provenance.packages import package_version
from curator_bench.rootdir import name_in_project
from curator_bench.runner.folders import item_dir
from curator_bench.runner.outcomes import masked_check
from curator_bench.runner.phases import shown
from curator_bench.runner.recorder import Recording
from curator_bench.store.queries import EntryKey
from curator_bench.store.records import Figures, RunEnd, RunStart
from curator_bench.values import Check, Entry, RunResult, Scalar, Verdict

if TYPE_CHECKING:
    from curator_bench.cluster.model import Cluster
    from curator_bench.store.schema import TestRun

COLUMNS = {
    "exec_time_s": "duration",
    "average_memory_bytes": "average_memory",
    "peak_memory_bytes": "peak_memory",
    "compute_time_s": "compute_time",
    "disk_spill_time_s": "disk_spill_time",
    "serializing_time_s": "serializing_time",
    "transfer_time_s": "transfer_time",
    "peak_gpu_memory_bytes": "peak_gpu_memory",
    "average_gpu_utilization": "average_gpu_utilization",
}
"""The metrics that have a column of their own as well."""
_FIGURES = frozenset(field.name for field in dataclasses.fields(Figures))
_OF_THE_END = ("duration", "error", "exit_code", "node", "gpu", "command", "log_path")
SETTABLE = (*sorted(_FIGURES), *_OF_THE_END)
"""The attributes of `test_run_benchmark` that are written when the test ends."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_PLAIN = (str, int, float, bool, type(None))


class PythonRun:
    """Begins, and writes its row, when it is made."""

    def __init__(self, item: pytest.Function, recording: Recording) -> None:
        self.recording = recording
        self.metrics: dict[str, Scalar] = {}
        self.params: dict[str, Any] = parameters_of(item)
        self.warnings: list[str] = []
        self.checks: tuple[Check, ...] = ()
        self.verdict = Verdict.PASSED
        self.error = ""
        self._item = item
        self._outcomes: dict[str, str] = {}
        self._call_s: float | None = None
        self._columns: dict[str, Any] = {"ray_version": package_version("ray")}
        self._row: TestRun | None = None
        self._mask = item.config.stash[BENCHMARKS].mask
        self._start = start_of(item)
        recording.start(self._start)

    def take(self, metrics: Mapping[str, Scalar]) -> None:
        """Keeps what was measured, each where it belongs."""
        self.metrics.update(metrics)
        for metric, column in COLUMNS.items():
            if metric in metrics:
                self._set(column, metrics[metric])

    def note_cluster(self, cluster: Cluster, *, details: bool = False) -> None:
        """What the row says of the cluster; with `details`, also which one it was."""
        self._set("ray_version", cluster.ray_version or self._columns["ray_version"])
        self._set("ray_num_cpus", cluster.resources.get("CPU"))
        self._set("ray_num_gpus", cluster.resources.get("GPU", 0.0) if cluster.resources else None)
        self._mask = self._mask.also(frozenset(filter(None, [cluster.token])))
        if details:
            self._set("cluster_name", cluster.session_dir.name if cluster.session_dir else cluster.address)
            self._set("cluster_id", cluster.node_id or None)
            self._set("cluster_details_url", cluster.dashboard_url or None)

    @property
    def origin(self) -> tuple[EntryKey, str | None]:
        """What its history is kept by, and its definition."""
        return EntryKey(self._start.name, self._start.path), self._start.definition_hash

    @property
    def row(self) -> TestRun:
        """The row as an object of its own; what is set on it is written when the run ends."""
        if self._row is None:
            from curator_bench.store.schema import TestRun

            told = {field.name: getattr(self._start, field.name) for field in dataclasses.fields(RunStart)}
            self._row = TestRun(**{**told, **self._columns})
        return self._row

    def note_phase(self, phase: str, outcome: str, seconds: float) -> None:
        self._outcomes[phase] = outcome
        if phase == "call":
            self._call_s = seconds

    def note_verdict(self, verdict: Verdict, error: str) -> None:
        """The first that is not `passed` stays."""
        if self.verdict is Verdict.PASSED:
            self.verdict, self.error = verdict, error

    def record(self) -> None:
        """Completes the row."""
        if "call" not in self._outcomes:
            self.note_verdict(Verdict.ERROR, "its test was not called")
        columns = self._settled()
        end = RunEnd(
            verdict=self.verdict,
            end=datetime.now(UTC),
            setup_outcome=self._outcomes.get("setup"),
            call_outcome=self._outcomes.get("call"),
            teardown_outcome=self._outcomes.get("teardown"),
            figures=Figures(**{name: columns.pop(name) for name in _FIGURES & set(columns)}),
            metrics=masked(self.metrics, self._mask),
            params=self._shown_params(),
            checks=tuple(masked_check(check, self._mask) for check in self.checks),
            **{"duration": self._call_s, "error": self._shown_error() or None, **columns},
        )
        self.recording.finish(self._start.uid, end)

    def report(self) -> dict[str, Any]:
        """What travels on the test report, as the run of an entry does: builtin values."""
        config, columns = self._item.config, self._settled()
        directory = item_dir(self._item)
        result = RunResult(
            name=self._start.name,
            verdict=self.verdict,
            started_at=self._start.start.isoformat(timespec="milliseconds"),
            ended_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            duration_s=columns.get("duration") or self._call_s or 0.0,
            error=self._shown_error(),
            params=self._shown_params(),
            metrics=masked(self.metrics, self._mask),
            warnings=tuple(map(self._mask.hide, self.warnings)),
            ray_version=columns.get("ray_version") or "",
            ray_num_cpus=columns.get("ray_num_cpus"),
            ray_num_gpus=columns.get("ray_num_gpus"),
        )
        more = {
            "uid": self._start.uid,
            "entry": self._start.originalname,
            "axes": {},
            "matrix": "",
            "file": self._start.path,
            "nodeid": self._item.nodeid,
            "session": config.stash[BENCHMARKS].settings.session,
            "directory": str(directory) if directory.exists() else "",
            "requirements": [dataclasses.asdict(masked_check(check, self._mask)) for check in self.checks],
        }
        found: dict[str, Any] = json.loads(json.dumps(strict({**dataclasses.asdict(result), **more}), default=str))
        return found

    def _set(self, column: str, value: Any) -> None:
        self._columns[column] = value
        if self._row is not None:
            setattr(self._row, column, value)

    def _settled(self) -> dict[str, Any]:
        """The columns as they are now, with what was set on the row."""
        if self._row is not None:
            said = {name: getattr(self._row, name) for name in SETTABLE}
            self._columns.update({name: value for name, value in said.items() if value is not None})
        return dict(self._columns)

    def _shown_error(self) -> str:
        return shown(self.error, self._mask)

    def _shown_params(self) -> dict[str, Any]:
        named = {name: "***" if is_secret_name(name) else value for name, value in self.params.items()}
        shown: dict[str, Any] = masked(named, self._mask)
        return shown


def start_of(item: pytest.Function) -> RunStart:
    return RunStart(
        name=item.nodeid.partition("::")[2],
        originalname=item.originalname,
        path=name_in_project(item.path, item.config),
        nodeid=item.nodeid,
        definition_hash=_definition(item),
        start=datetime.now(UTC),
    )


def parameters_of(item: pytest.Function) -> dict[str, Any]:
    """What the test was parametrized with, told without what differs from run to run and from machine to machine."""
    callspec = getattr(item, "callspec", None)
    return {name: _told(value) for name, value in callspec.params.items()} if callspec else {}


def _told(value: Any) -> Any:
    if isinstance(value, Entry):
        return value.id
    if isinstance(value, type) or inspect.isroutine(value):
        return value.__qualname__
    return value if isinstance(value, _PLAIN) else _ADDRESS.sub("", repr(value))


def _definition(item: pytest.Function) -> str | None:
    callspec = getattr(item, "callspec", None)
    entries = [value for value in callspec.params.values() if isinstance(value, Entry)] if callspec else []
    parameters = {**parameters_of(item), **{f"entry {entry.id}": definition_hash(entry) for entry in entries}}
    try:
        return function_hash(textwrap.dedent(inspect.getsource(item.function)), parameters)
    except (OSError, TypeError):  # made by a program, which leaves no source
        return None
