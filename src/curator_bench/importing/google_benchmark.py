"""Import of Google Benchmark's JSON (`--benchmark_format=json`, `--benchmark_out`). A file is a session.

The repetitions of a benchmark are samples of one run. Its aggregates are used only if there are no repetitions.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from curator_bench.errors import Mistake
from curator_bench.importing.found_runs import (
    Found,
    FoundRun,
    document_of,
    is_number,
    moment_of,
    object_in,
    stable_uid,
    written_at,
)
from curator_bench.importing.results import Combine
from curator_bench.importing.units import seconds_in
from curator_bench.store.records import InvocationRecord, RunEnd, RunStart, SessionRecord, StoredRun
from curator_bench.values import Place, Repeat, Scalar, Verdict

_TIMES = ("real_time", "cpu_time")
_PARAMS = ("threads", "label", "repetitions")
_NO_COUNTERS = frozenset(
    (
        *(*_TIMES, *_PARAMS, "iterations", "family_index", "per_family_instance_index", "repetition_index"),
        *("cv", "rms", "big_o"),
    )
)
_SUFFIXES = {"median": "", "mean": "_mean", "stddev": "_std", "min": "_min", "max": "_max"}


def recognizes(document: Mapping[str, Any]) -> bool:
    context = object_in(document, "context")
    is_known = {"library_build_type", "num_cpus", "executable"} & context.keys()
    return isinstance(document.get("benchmarks"), list) and bool(is_known)


def read(path: Path, combine: Combine) -> Iterator[Found]:
    document = document_of(path)
    if isinstance(document, Mistake):
        yield document
        return
    place, context = Place(str(path), 0), object_in(document, "context")
    try:
        moment = moment_of(context["date"]) if context.get("date") else written_at(path)
    except ValueError as error:
        yield Mistake(place, "context.date", str(error))
        return
    uid = stable_uid("google-benchmark", json.dumps(document, sort_keys=True))
    by_name: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for number, line in enumerate(document["benchmarks"]):
        name = (line.get("run_name") or line.get("name")) if isinstance(line, dict) else None
        if isinstance(name, str) and name:
            by_name[name].append(line)
        else:
            yield Mistake(place, f"benchmarks[{number}]", "expected an object with a name")
    for name, lines in by_name.items():
        yield FoundRun(
            StoredRun(*_head(uid, context, moment), *_run(uid, name, lines, context, moment, combine)), place, name
        )


def _head(uid: str, context: Mapping[str, Any], moment: datetime) -> tuple[SessionRecord, InvocationRecord]:
    session = SessionRecord(f"google-benchmark__{moment:%Y-%m-%d__%H-%M-%S}_UTC", "", stable_uid(uid, "session"))
    facts = {"google_benchmark": dict(context)}
    host = context.get("host_name")
    return session, InvocationRecord(
        stable_uid(uid, "invocation"), moment, host=str(host) if host else None, environment=facts, end=moment
    )


def _run(
    uid: str,
    name: str,
    lines: Sequence[Mapping[str, Any]],
    context: Mapping[str, Any],
    moment: datetime,
    combine: Combine,
) -> tuple[RunStart, RunEnd]:
    start = RunStart(
        name=name,
        originalname=name.partition("/")[0],
        path="",
        start=moment,
        uid=stable_uid(uid, name),
        host=str(context["host_name"]) if context.get("host_name") else None,
        machine_id=f"google-benchmark-{stable_uid(context.get('num_cpus'), context.get('caches'))[:12]}",
    )
    measured = [line for line in lines if line.get("run_type", "iteration") == "iteration"]
    params = {key: line[key] for line in reversed(measured or lines) for key in _PARAMS if key in line}
    failed = next((line for line in lines if line.get("error_occurred")), None)
    if failed is not None:
        error = str(failed.get("error_message") or "the benchmark reported an error")
        return start, RunEnd(Verdict.CRASHED, moment, error=error, params=params)
    repeats = tuple(
        Repeat(at, None, 0.0, metrics) for at, line in enumerate(measured, 1) if (metrics := _metrics(line))
    )
    metrics = dict(combine(repeats)) if repeats else _aggregated(lines)
    return start, RunEnd(
        Verdict.PASSED if metrics else Verdict.ERROR,
        moment,
        metrics=metrics,
        params=params,
        repeats=repeats if len(repeats) > 1 else (),
    )


def _metrics(line: Mapping[str, Any]) -> dict[str, Scalar]:
    """Return the times of a line in seconds, and its counters."""
    factor = seconds_in(line.get("time_unit", "ns")) or 1e-9
    found: dict[str, Scalar] = {f"{name}_s": value * factor for name in _TIMES if is_number(value := line.get(name))}
    return found | {name: value for name, value in line.items() if name not in _NO_COUNTERS and is_number(value)}


def _aggregated(lines: Sequence[Mapping[str, Any]]) -> dict[str, Scalar]:
    """Return the metrics of aggregates. The median counts, or the mean if there is none."""
    by_name = {str(line.get("aggregate_name")): _metrics(line) for line in lines}
    found: dict[str, Scalar] = dict(by_name.get("median", by_name.get("mean", {})))
    for name, suffix in _SUFFIXES.items():
        if suffix:
            found |= {f"{metric}{suffix}": value for metric, value in by_name.get(name, {}).items()}
    return found
