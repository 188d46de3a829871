"""Import of pyperf's files (`-o FILE`), also of pyperformance. A file is a session, each benchmark a run.

All values of all its processes are samples of the run, combined as the repeats of a script.
"""

from __future__ import annotations

import json
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
from curator_bench.importing.units import metric_in
from curator_bench.store.records import InvocationRecord, RunEnd, RunStart, SessionRecord, StoredRun
from curator_bench.values import Place, Repeat, Scalar, Verdict

_PARAMS = ("inner_loops", "description", "tags", "timer")
_HARDWARE = ("cpu_model_name", "cpu_count", "platform")


def recognizes(document: Mapping[str, Any]) -> bool:
    benchmarks = document.get("benchmarks")
    return isinstance(benchmarks, list) and any(isinstance(one, dict) and "runs" in one for one in benchmarks)


def read(path: Path, combine: Combine) -> Iterator[Found]:
    document = document_of(path)
    if isinstance(document, Mistake):
        yield document
        return
    common, uid = object_in(document, "metadata"), stable_uid("pyperf", json.dumps(document, sort_keys=True))
    for number, benchmark in enumerate(document["benchmarks"]):
        place, where = Place(str(path), 0), f"benchmarks[{number}]"
        runs = benchmark.get("runs") if isinstance(benchmark, dict) else None
        if not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs):
            yield Mistake(place, where, "expected an object with runs")
            continue
        about = {**common, **object_in(benchmark, "metadata")}
        try:
            start, end = _span(runs, about) or (written_at(path), written_at(path))
        except ValueError as error:
            yield Mistake(place, where, str(error))
            continue
        yield FoundRun(_record(uid, number, about, runs, (start, end), combine), place, where)


def _record(
    uid: str,
    number: int,
    about: Mapping[str, Any],
    runs: Sequence[Mapping[str, Any]],
    span: tuple[datetime, datetime],
    combine: Combine,
) -> StoredRun:
    name, (start, end) = str(about.get("name") or f"benchmark {number + 1}"), span
    metric, _ = metric_in(str(about.get("unit") or "second"))
    values = [
        value for run in runs if isinstance(run.get("values"), list) for value in run["values"] if is_number(value)
    ]
    repeats = tuple(Repeat(at, None, value, {metric: value}) for at, value in enumerate(values, 1))
    metrics: dict[str, Scalar] = dict(combine(repeats)) if repeats else {}
    memory = [rss for run in runs if is_number(rss := object_in(run, "metadata").get("mem_max_rss"))]
    if memory:
        metrics["peak_memory_bytes"] = max(memory)
    commit = about.get("commit_id")
    session = SessionRecord(
        f"pyperf__{start:%Y-%m-%d__%H-%M-%S}_UTC",
        "",
        stable_uid(uid, "session"),
        commit=commit if isinstance(commit, str) else None,
        branch=str(about["commit_branch"]) if about.get("commit_branch") else None,
    )
    invocation = InvocationRecord(stable_uid(uid, "invocation"), start, environment={"pyperf": dict(about)}, end=end)
    verdict = Verdict.PASSED if repeats else Verdict.ERROR
    params = {key: about[key] for key in _PARAMS if key in about}
    return StoredRun(
        session,
        invocation,
        RunStart(
            name=name,
            path="",
            start=start,
            uid=stable_uid(uid, name, number),
            host=str(about["hostname"]) if about.get("hostname") else None,
            machine_id=_machine_id(about),
            python_version=str(about["python_version"]) if about.get("python_version") else None,
            platform=str(about["platform"]) if about.get("platform") else None,
        ),
        RunEnd(verdict, end, metrics=metrics, params=params, repeats=repeats if len(repeats) > 1 else ()),
    )


def _span(runs: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> tuple[datetime, datetime] | None:
    """Return when the first and the last process began; None if that is not said."""
    said = [object_in(run, "metadata").get("date") for run in runs]
    moments = [moment_of(one) for one in (*said, about.get("date")) if one is not None]
    return (min(moments), max(moments)) if moments else None


def _machine_id(about: Mapping[str, Any]) -> str | None:
    said = [about.get(name) for name in _HARDWARE]
    return f"pyperf-{stable_uid(*said)[:12]}" if any(said) else None
