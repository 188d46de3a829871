"""Import of pytest-benchmark's files (`--benchmark-json`, `--benchmark-autosave`).

A file is a session, each benchmark a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from curator_bench.errors import Mistake
from curator_bench.importing.found_runs import (
    Found,
    FoundRun,
    document_of,
    is_number,
    moment_of,
    object_in,
    stable_uid,
)
from curator_bench.store.records import InvocationRecord, RunEnd, RunStart, SessionRecord, StoredRun
from curator_bench.values import Place, Scalar, Verdict

_METRICS = {
    # seconds and calls per second, which their names do not say
    **{name: f"{name}_s" for name in ("min", "max", "mean", "stddev", "median", "iqr", "q1", "q3", "total")},
    "ops": "ops_per_sec",
    "rounds": "rounds",
    "iterations": "iterations",
}
ROUND = "median_s"
"""The metric that each round is a sample of. The others are further statistics of the same rounds."""
_NO_COMMIT = ("unversioned", "unknown")


class Figures(NamedTuple):
    """Metrics and parameters of a benchmark."""

    metrics: dict[str, Scalar]
    params: dict[str, Any]


def recognizes(document: Mapping[str, Any]) -> bool:
    return isinstance(document.get("benchmarks"), list)


def read(path: Path) -> Iterator[Found]:
    place = Place(str(path), 0)
    document = document_of(path)
    if isinstance(document, Mistake):
        yield document
        return
    try:
        moment = moment_of(document.get("datetime"))
    except ValueError as error:
        yield Mistake(place, "datetime", str(error))
        return
    session, invocation = _session(document, moment), _invocation(document, moment)
    for number, benchmark in enumerate(document["benchmarks"]):
        if _is_benchmark(benchmark):
            start, end = _start(benchmark, document, session, moment), _end(benchmark, moment)
            yield FoundRun(StoredRun(session, invocation, start, end), place, f"benchmarks[{number}]")
        else:
            yield Mistake(place, f"benchmarks[{number}]", "expected an object with name, fullname and stats")


def _is_benchmark(said: object) -> bool:
    if not isinstance(said, dict) or not isinstance(said.get("stats", {}), dict):
        return False
    return all(isinstance(said.get(name), str) and said[name] for name in ("name", "fullname"))


def _session(document: Mapping[str, Any], moment: datetime) -> SessionRecord:
    commit = object_in(document, "commit_info")
    known = commit.get("id") if commit.get("id") not in _NO_COMMIT else None
    branch = str(commit.get("branch") or "")
    return SessionRecord(
        name=f"pytest-benchmark__{moment:%Y-%m-%d__%H-%M-%S}_UTC",
        results_directory="",
        uid=_uid("session", document),
        commit=known,
        dirty=commit.get("dirty") if known else None,
        branch=None if branch.startswith("(") else branch or None,
    )


def _invocation(document: Mapping[str, Any], moment: datetime) -> InvocationRecord:
    machine = object_in(document, "machine_info")
    facts = {"machine_info": machine, "pytest_benchmark": document.get("version")}
    return InvocationRecord(
        _uid("invocation", document), moment, host=machine.get("node"), environment=facts, end=moment
    )


def _start(
    benchmark: Mapping[str, Any], document: Mapping[str, Any], session: SessionRecord, moment: datetime
) -> RunStart:
    machine = object_in(document, "machine_info")
    path, _, name = benchmark["fullname"].partition("::")
    return RunStart(
        name=name or benchmark["name"],
        originalname=(name or benchmark["name"]).partition("[")[0],
        path=path if name else "",
        nodeid=benchmark["fullname"],
        start=moment,
        uid=stable_uid(session.uid, benchmark["fullname"], benchmark.get("param"), benchmark.get("group")),
        host=machine.get("node"),
        machine_id=_machine_id(machine),
        python_version=machine.get("python_version"),
        platform=machine.get("system"),
    )


def _end(benchmark: Mapping[str, Any], moment: datetime) -> RunEnd:
    stats, figures = object_in(benchmark, "stats"), figures_of(benchmark)
    return RunEnd(
        # The file omits failed tests. A benchmark without figures could not be measured.
        verdict=Verdict.PASSED if stats else Verdict.ERROR,
        end=moment,
        duration=stats.get("total") if is_number(stats.get("total")) else None,
        call_outcome="passed" if stats else "failed",
        metrics=figures.metrics,
        params=figures.params,
    )


def figures_of(benchmark: Mapping[str, Any]) -> Figures:
    """Return the statistics and numbers of `extra_info` as metrics; the rest of it, parameters and group as params."""
    stats, extra = object_in(benchmark, "stats"), object_in(benchmark, "extra_info")
    metrics: dict[str, Scalar] = {ours: stats[name] for name, ours in _METRICS.items() if is_number(stats.get(name))}
    metrics |= {name: value for name, value in extra.items() if is_number(value)}
    params = {**object_in(benchmark, "params"), **{name: value for name, value in extra.items() if name not in metrics}}
    if benchmark.get("group"):
        params["group"] = benchmark["group"]
    return Figures(metrics, params)


def _machine_id(machine: Mapping[str, Any]) -> str | None:
    """Id from what decides speed. Readings that change at each boot, such as the clock rate, are left out."""
    cpu = object_in(machine, "cpu")
    said = [
        cpu.get("brand_raw") or cpu.get("brand") or machine.get("processor"),
        cpu.get("count"),
        machine.get("machine"),
    ]
    return f"pytest-benchmark-{stable_uid(*said)[:12]}" if any(said) else None


def _uid(kind: str, document: Mapping[str, Any]) -> str:
    said = (document.get(name) for name in ("datetime", "machine_info", "commit_info"))
    names = [benchmark.get("fullname") for benchmark in document["benchmarks"] if isinstance(benchmark, dict)]
    return stable_uid("pytest-benchmark", kind, *said, names)
