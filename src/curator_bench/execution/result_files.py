"""Read a script's result files: params.json, metrics.json, samples.json and tasks.pkl.

Each file has a defined outcome, whatever it contains: values, a warning, or (metrics.json only) a problem that makes
the run `crashed`. Judging the numbers is left to others.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from curator_bench.execution.task_metrics import read_task_metrics
from curator_bench.execution.untrusted_files import (
    MEBIBYTE,
    Absent,
    Unusable,
    clean_text,
    read_json_object,
    some_of,
)
from curator_bench.repeats import thinned
from curator_bench.values import Scalar, Stage

MOST_METRICS = 10_000
MOST_LIST_ITEMS = 100
LONGEST_NAME = 250
LONGEST_TEXT = 4096
_MOST_METRICS_BYTES = 64 * MEBIBYTE
_MOST_PARAMS_BYTES = 4 * MEBIBYTE
_DEEPEST_PARAMS = 50


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """Contents of the files.

    `problem` says why metrics.json is unusable (the verdict is then `crashed`); else empty.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Scalar] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    problem: str = ""
    stages: tuple[Stage, ...] = ()
    samples: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


def read_result_files(folder: Path, *, python: str, env: Mapping[str, str], below: Path | None = None) -> ResultFiles:
    """Read the files of one execution.

    `python` and `env` are the script's, for the child that opens tasks.pkl. No link is followed from the folder `below`
    on; by default the files' own folder.

    Metrics of tasks.pkl replace equal names of metrics.json, and count even if metrics.json is unusable.
    """
    params, params_warnings = _read_params(folder / "params.json", below)
    metrics, metrics_warnings, problem = _read_metrics(folder / "metrics.json", below)
    if problem and not os.path.lexists(folder / "params.json"):  # one message is enough for a script that wrote nothing
        params_warnings = ()
    task_metrics, task_warnings, stages = _read_tasks(folder / "tasks.pkl", below, python, env)
    return ResultFiles(
        params=params,
        metrics={**metrics, **task_metrics},
        warnings=(*params_warnings, *metrics_warnings, *task_warnings),
        problem=problem,
        stages=stages,
        samples=_read_samples(folder / "samples.json", below, metrics),
    )


def _read_params(path: Path, below: Path | None) -> tuple[dict[str, Any], tuple[str, ...]]:
    try:
        content = read_json_object(path, most_bytes=_MOST_PARAMS_BYTES, below=below)
        return _clean(content.fields), _about(path, content.warnings)
    except Unusable as reason:
        return {}, _about(path, [str(reason)])


def _read_metrics(path: Path, below: Path | None) -> tuple[dict[str, Scalar], tuple[str, ...], str]:
    try:
        content = read_json_object(path, most_bytes=_MOST_METRICS_BYTES, below=below)
    except Absent:
        return {}, (), f"{path.name} was not written to {path.parent}"
    except Unusable as reason:
        return {}, (), f"{path.name} {reason}"
    flat = FlatMetrics()
    flat.add_all(content.fields)
    return flat.metrics, _about(path, [*content.warnings, *flat.warnings()]), ""


def _read_samples(path: Path, below: Path | None, metrics: Mapping[str, Scalar]) -> dict[str, tuple[float, ...]]:
    """Read lists of numbers by the metric that they are samples of. Anything else is no sample."""
    try:
        found = read_json_object(path, most_bytes=_MOST_METRICS_BYTES, below=below).fields
    except Unusable:
        return {}
    return {name: thinned(values) for name, values in found.items() if name in metrics and _are_numbers(values)}


def _are_numbers(values: object) -> bool:
    return isinstance(values, list) and all(type(value) in (int, float) for value in values)


def _read_tasks(
    path: Path, below: Path | None, python: str, env: Mapping[str, str]
) -> tuple[dict[str, Scalar], tuple[str, ...], tuple[Stage, ...]]:
    tasks = read_task_metrics(path, python=python, env=env, below=below)
    flat = FlatMetrics()
    flat.add_all(tasks.metrics)
    return flat.metrics, (*tasks.warnings, *_about(path, flat.warnings())), tasks.stages


def _about(path: Path, findings: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{path.name} {finding}" for finding in findings)


def _clean(value: Any, depth: int = 0) -> Any:
    """Clean a JSON value: text becomes writable everywhere. Raises Unusable if it is nested too deeply."""
    if depth > _DEEPEST_PARAMS:
        raise Unusable(f"is nested more than {_DEEPEST_PARAMS} deep")
    if isinstance(value, dict):
        return {clean_text(name): _clean(item, depth + 1) for name, item in value.items()}
    if isinstance(value, list):
        return [_clean(item, depth + 1) for item in value]
    return clean_text(value) if isinstance(value, str) else value


@dataclass(slots=True)
class FlatMetrics:
    """Nested JSON as a flat dictionary: `{"a": {"b": [1, 2]}}` becomes `a.b.0` and `a.b.1`.

    Outer values are added before nested ones, so that the limits never cost a metric of the outermost object.
    """

    metrics: dict[str, Scalar] = field(default_factory=dict)
    clashing: list[str] = field(default_factory=list)
    long_lists: list[str] = field(default_factory=list)
    long_names: list[str] = field(default_factory=list)
    long_texts: list[str] = field(default_factory=list)
    is_full: bool = False

    def add_all(self, fields: Mapping[str, Any]) -> None:
        waiting: deque[tuple[str, Iterable[tuple[Any, Any]]]] = deque([("", fields.items())])
        while waiting:
            prefix, items = waiting.popleft()
            for key, value in items:
                name = clean_text(f"{prefix}{key}")
                if len(name) > LONGEST_NAME:
                    self.long_names.append(name)
                elif isinstance(value, (dict, list)):
                    waiting.append((f"{name}.", self._items_of(name, value)))
                else:
                    self._add(name, value)
                if self.is_full:
                    return

    def _items_of(self, name: str, values: dict[str, Any] | list[Any]) -> Iterable[tuple[Any, Any]]:
        if isinstance(values, dict):
            return values.items()
        if len(values) > MOST_LIST_ITEMS:
            self.long_lists.append(name)
        return enumerate(values[:MOST_LIST_ITEMS])

    def _add(self, name: str, value: Scalar) -> None:
        if name in self.metrics:
            self.clashing.append(name)
        elif len(self.metrics) >= MOST_METRICS:
            self.is_full = True
        else:
            self.metrics[name] = self._kept_text(name, value) if isinstance(value, str) else value

    def _kept_text(self, name: str, text: str) -> str:
        if len(text) > LONGEST_TEXT:
            self.long_texts.append(name)
        return clean_text(text[:LONGEST_TEXT])

    def warnings(self) -> tuple[str, ...]:
        """Warnings about values that were left out or cut."""
        found = {
            "has repeated names, of which the outermost counts": self.clashing,
            f"has lists cut after {MOST_LIST_ITEMS} items": self.long_lists,
            f"has names longer than {LONGEST_NAME} characters, which are left out": self.long_names,
            f"has texts cut after {LONGEST_TEXT:,} characters": self.long_texts,
        }
        said = [f"{what}: {some_of(names)}" for what, names in found.items() if names]
        if self.is_full:
            said.append(f"holds more than {MOST_METRICS:,} metrics, of which the outermost {MOST_METRICS:,} are kept")
        return tuple(said)
