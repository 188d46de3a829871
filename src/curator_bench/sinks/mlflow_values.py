"""A run as MLflow takes it: names, values, tags and time series within MLflow's limits."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from curator_bench.files import safe_files
from curator_bench.values import MACHINE, RunRecord, Scalar, Session, Verdict
from curator_bench.words import check_line

LONGEST_NAME = 250
LONGEST_PARAM = 6000
LONGEST_TAG = 5000
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_\-. :/]")
_MOST_POINTS = 500
_NO_NAME = "(empty)"
_SYSTEM = "system/"
"""MLflow shows such metrics apart, under "System metrics"."""
_STATUS = {
    Verdict.PASSED: "FINISHED",
    Verdict.SKIPPED: "FINISHED",
    Verdict.INTERRUPTED: "KILLED",
    Verdict.TIMEOUT: "KILLED",
}


@dataclass(frozen=True, slots=True)
class Point:
    """One reading of a metric."""

    name: str
    value: float
    at_ms: int
    step: int = 0


@dataclass
class Logged:
    """The params, metrics, tags and texts that are logged of one run."""

    params: dict[str, str] = field(default_factory=dict)
    metrics: list[Point] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    long_texts: dict[str, str] = field(default_factory=dict)
    """Full texts of values that had to be shortened."""


def status_of(verdict: Verdict) -> str:
    return _STATUS.get(verdict, "FAILED")


def milliseconds(stamp: str) -> int:
    return round(datetime.fromisoformat(stamp).timestamp() * 1000)


def logged(result: RunRecord, session: Session) -> Logged:
    found = Logged(tags=_tags(result, session))
    for name, value in {**result.axes, **dict(_flat(result.params))}.items():
        _add_param(found, name, str(value))
    _add_metrics(found, {"run_duration_s": result.duration_s, **result.metrics}, milliseconds(result.ended_at))
    return _within_limits(found)


def logged_repeat(metrics: Mapping[str, Scalar], at_ms: int) -> Logged:
    found = Logged()
    _add_metrics(found, metrics, at_ms)
    return _within_limits(found)


def session_tags(session: Session) -> dict[str, str]:
    """Return the tags of the session, for the parent run and each of its runs."""
    tags = {
        "session": session.name,
        "commit": session.commit,
        "mlflow.source.git.commit": session.commit,
        "branch": session.branch,
        "dirty": "" if session.dirty is None else str(session.dirty).lower(),
        "reason": session.reason,
        "machine": session.host,
        "viewer_url": session.viewer_url,
        "ci_run_url": session.ci_run_url,
    }
    for subject in session.subjects:
        tags[f"subject.{subject.package}"] = subject.version or "unknown"
        tags[f"subject.{subject.package}.commit"] = subject.commit or ""
    for fact in ("cpu_model", "cores", "memory_bytes", "machine_id", "python", "ray", "kernel", "image_digest"):
        tags[fact] = str(session.environment.get(fact) or "")
    return {name: value[:LONGEST_TAG] for name, value in tags.items() if value}


def _tags(result: RunRecord, session: Session) -> dict[str, str]:
    return {
        **session_tags(session),
        "verdict": str(result.verdict),
        "entry": result.entry,
        "marks": ", ".join(result.marks),
        "nodeid": result.nodeid,
        "attempt": str(result.attempt),
        "machine": result.host or session.host,
        "gpus": ", ".join(result.gpus),
        "error": result.error,
        "disturbed": result.disturbed or "",
        "warnings": "\n".join(result.warnings),
        "curator_bench.uid": result.uid,
        "mlflow.source.name": result.nodeid,
        "unmet": "\n".join(map(check_line, result.unmet)),
        "inconclusive": "\n".join(map(check_line, result.inconclusive)),
        "what_changed": "\n".join(result.changed),
        "ray_version": result.ray_version,
    }


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and (value or not prefix):
        for name, inner in value.items():
            yield from _flat(inner, f"{prefix}.{name}" if prefix else str(name))
    else:
        yield prefix, value


def _add_param(found: Logged, name: str, value: str) -> None:
    key = _free_name(name, found.params)
    found.params[key] = value
    if key != name:
        found.tags[f"param_name.{key}"[:LONGEST_NAME]] = name or _NO_NAME


def _add_metrics(found: Logged, metrics: Mapping[str, Scalar], at_ms: int) -> None:
    taken: dict[str, str] = {}
    for name, value in metrics.items():
        key = _free_name(f"{_SYSTEM}{name}" if name.startswith(MACHINE) else name, taken)
        taken[key] = name
        number = _number(value)
        if number is not None:
            found.metrics.append(Point(key, number, at_ms))
        elif value is not None:
            found.tags[f"metric.{key}"[:LONGEST_NAME]] = str(value)
        if key not in (name, f"{_SYSTEM}{name}"):
            found.tags[f"metric_name.{key}"[:LONGEST_NAME]] = name or _NO_NAME


def _number(value: Scalar) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return float(value) if isinstance(value, bool) else None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    """Return a free name that MLflow accepts. Forbidden characters are replaced, as are the parts `.` and `..`."""
    base = _FORBIDDEN.sub("_", name)
    base = "/".join(part if part.strip(".") else "_" * max(1, len(part)) for part in base.split("/"))[:LONGEST_NAME]
    key, count = base, 1
    while key in taken:
        count += 1
        key = f"{base[: LONGEST_NAME - 6]}_{count}"
    return key


def _within_limits(found: Logged) -> Logged:
    for kind, values, longest in (("params", found.params, LONGEST_PARAM), ("tags", found.tags, LONGEST_TAG)):
        for name, value in list(values.items()):
            if not value and kind == "tags":
                del values[name]
            elif len(value) > longest:
                found.long_texts[f"{kind}.{name}"] = value
                values[name] = f"{value[: longest - 1]}…"
    return found


def time_series(directory: Path) -> Iterator[Point]:
    """Yield the samples of memory.csv and gpustats.csv as points, at most some hundred of each."""
    rows = _rows(directory / "memory.csv")
    for step, row in _thinned(rows):
        yield from _points(row, step, {"memory_bytes": f"{_SYSTEM}memory_bytes"})
    by_gpu: dict[str, list[dict[str, str]]] = {}
    for row in _rows(directory / "gpustats.csv"):
        by_gpu.setdefault(row.get("gpu", ""), []).append(row)
    for gpu, rows in by_gpu.items():
        names = {
            "utilization_percent": f"{_SYSTEM}gpu_{gpu}_utilization_percentage",
            "memory_used_bytes": f"{_SYSTEM}gpu_{gpu}_memory_usage_bytes",
            "power_w": f"{_SYSTEM}gpu_{gpu}_power_usage_watts",
        }
        for step, row in _thinned(rows):
            yield from _points(row, step, names)


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with io.TextIOWrapper(safe_files.open_file(path), newline="") as file:
            return list(csv.DictReader(file))
    except (OSError, ValueError, csv.Error):
        return []


def _thinned(rows: list[dict[str, str]]) -> Iterator[tuple[int, dict[str, str]]]:
    every = max(1, math.ceil(len(rows) / _MOST_POINTS))
    return ((step, row) for step, row in enumerate(rows) if step % every == 0)


def _points(row: Mapping[str, str], step: int, names: Mapping[str, str]) -> Iterator[Point]:
    for column, name in names.items():
        try:
            yield Point(name, float(row[column]), milliseconds(row["time"]), step)
        except (KeyError, ValueError, TypeError):
            continue
