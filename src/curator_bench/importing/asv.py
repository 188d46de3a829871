"""Import of asv's results: RESULTS/MACHINE/COMMIT-ENVIRONMENT.json, of both versions of its format.

A commit is a session, and each benchmark with each combination of its parameters is a run. Runs stand at the time of
their commit, as in asv's graphs, because old commits are often measured later. What asv keeps apart is apart here, too:
its machines, its environments (as `path`) and the versions of a benchmark's code (as the definition).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
)
from curator_bench.importing.units import metric_in
from curator_bench.store.records import InvocationRecord, RunEnd, RunStart, SessionRecord, StoredRun
from curator_bench.values import Place, Repeat, Scalar, Verdict

BENCHMARKS = "benchmarks.json"
_MACHINE = "machine.json"
_COMMIT_SHOWN = 12
_BY_PREFIX = {"time": "time_s", "timeraw": "time_s", "mem": "size_bytes", "peakmem": "peakmem_bytes"}
_STATS = ("ci_99_a", "ci_99_b", "q_25", "q_75")
_COUNTS = ("number", "repeat")
_TEXT = re.compile(r"u?'(.*)'|<class '(.+)'>")


@dataclass(frozen=True, slots=True)
class _Benchmark:
    """The results of one benchmark, for all combinations of its parameters; the same for both versions."""

    name: str
    results: Sequence[Any] | None
    """None if it failed."""
    params: Sequence[Sequence[str]]
    version: str | None
    stats: Mapping[str, Sequence[Any]]
    samples: Sequence[Any]


def recognizes(document: Mapping[str, Any]) -> bool:
    return {"commit_hash", "results", "params"} <= document.keys()


def is_machine(document: Mapping[str, Any]) -> bool:
    """True for machine.json, which is beside the results and is read with them."""
    return "machine" in document and "version" in document and "results" not in document


def is_list_of_benchmarks(document: Mapping[str, Any]) -> bool:
    """True for benchmarks.json, which is read with the results, too."""
    return any(isinstance(one, dict) and {"code", "param_names"} <= one.keys() for one in document.values())


def read_folder(folder: Path) -> Iterator[Found]:
    """Read all results of a folder that has benchmarks.json. Other folders in it, as of our sessions, are left out."""
    for file in sorted(folder.glob("*/*.json")):
        if file.name != _MACHINE and (file.with_name(_MACHINE).is_file() or _has_results(file)):
            yield from read(file)


def _has_results(file: Path) -> bool:
    document = document_of(file)
    return not isinstance(document, Mistake) and recognizes(document)


def read(path: Path) -> Iterator[Found]:
    document = document_of(path)
    if isinstance(document, Mistake):
        yield document
        return
    place = Place(str(path), 0)
    try:
        moment = _moment(document.get("date"))
    except ValueError as error:
        yield Mistake(place, "date", str(error))
        return
    commit = document.get("commit_hash")
    if not isinstance(commit, str) or not commit:
        yield Mistake(place, "commit_hash", "expected the hash of a commit")
        return
    known = _read_beside(path.parent.parent / BENCHMARKS)
    context = _Context(document, commit, moment, _read_beside(path.with_name(_MACHINE)))
    for benchmark in _benchmarks(document):
        if isinstance(benchmark, str):
            yield Mistake(place, f"results.{benchmark}", "expected results of asv")
            continue
        for record in context.runs(benchmark, object_in(known, benchmark.name)):
            yield FoundRun(record, place, f"results.{benchmark.name}")


class _Context:
    """The facts that all results of a file share."""

    def __init__(self, document: Mapping[str, Any], commit: str, moment: datetime, machine: Mapping[str, Any]) -> None:
        self._document, self._commit, self._moment = document, commit, moment
        self._machine = object_in(document, "params").get("machine")
        self._environment = str(document.get("env_name") or document.get("python") or "")
        names = ("params", "python", "requirements", "env_vars", "env_name")
        self._facts = {"asv": {name: document.get(name) for name in names}, "machine": dict(machine)}

    def runs(self, benchmark: _Benchmark, about: Mapping[str, Any]) -> Iterator[StoredRun]:
        """Yield a run for each combination of parameters. `about` is what benchmarks.json says of the benchmark."""
        said = about.get("param_names")
        names = [str(name) for name in said] if isinstance(said, list) else []
        names += [f"param{number}" for number in range(len(names) + 1, len(benchmark.params) + 1)]
        for number, values in enumerate(itertools.product(*benchmark.params)):
            texts = [_shown(value) for value in values]
            metric, factor = _metric(benchmark.name, about)
            end = _end(benchmark, number, metric, factor, self._moment)
            params = dict(zip(names, texts, strict=False)) | _further(about)
            yield StoredRun(
                self._session(),
                self._invocation(),
                self._start(benchmark, texts),
                RunEnd(**{**end, "params": params}),
            )

    def _session(self) -> SessionRecord:
        return SessionRecord(
            f"asv__{self._commit[:_COMMIT_SHOWN]}",
            "",
            stable_uid("asv", "session", self._commit),
            commit=self._commit,
        )

    def _invocation(self) -> InvocationRecord:
        uid = stable_uid("asv", "invocation", self._commit, self._machine, self._environment)
        return InvocationRecord(uid, self._moment, environment=self._facts, end=self._moment)

    def _start(self, benchmark: _Benchmark, texts: Sequence[str]) -> RunStart:
        own = f"{benchmark.name}[{'-'.join(texts)}]" if texts else benchmark.name
        machine = None if self._machine is None else str(self._machine)
        said = self._document.get("python")
        return RunStart(
            name=own,
            originalname=benchmark.name,
            path=self._environment,
            start=self._moment,
            uid=stable_uid("asv", self._commit, machine, self._environment, own, benchmark.version),
            definition_hash=benchmark.version,
            host=machine,
            machine_id=machine,
            python_version=str(said) if said else None,
        )


def _end(benchmark: _Benchmark, number: int, metric: str, factor: float, moment: datetime) -> dict[str, Any]:
    result = _at(benchmark.results, number)
    if result is None:
        return {"verdict": Verdict.CRASHED, "end": moment}
    if not is_number(result) or math.isnan(result):  # asv writes NaN for what a benchmark has skipped
        return {"verdict": Verdict.SKIPPED, "end": moment}
    metrics: dict[str, Scalar] = {metric: result * factor if factor != 1 else result}
    for name in (*_STATS, *_COUNTS):
        value = _at(benchmark.stats.get(name), number)
        if is_number(value) and math.isfinite(value):
            metrics[f"{metric}_{name}"] = value * factor if name in _STATS and factor != 1 else value
    samples = _at(benchmark.samples, number)
    values = [one for one in samples if is_number(one)] if isinstance(samples, list) else []
    repeats = tuple(Repeat(at, None, value, {metric: value * factor}) for at, value in enumerate(values, 1))
    return {"verdict": Verdict.PASSED, "end": moment, "metrics": metrics, "repeats": repeats if len(values) > 1 else ()}


def _metric(name: str, about: Mapping[str, Any]) -> tuple[str, float]:
    """Return the metric of a benchmark, by the kind of its function, else by its unit."""
    prefix = name.rpartition(".")[2].partition("_")[0].lower()
    if prefix in _BY_PREFIX:
        return _BY_PREFIX[prefix], 1.0
    return metric_in(str(about.get("unit") or ""))


def _further(about: Mapping[str, Any]) -> dict[str, Any]:
    return {"unit": about["unit"]} if about.get("unit") else {}


def _benchmarks(document: Mapping[str, Any]) -> Iterator[_Benchmark | str]:
    """Yield the benchmarks of a file; the name of one that is broken."""
    columns = document.get("result_columns")
    for name, said in object_in(document, "results").items():
        if isinstance(columns, list) and isinstance(said, list):
            yield _of_version_2(name, dict(zip(map(str, columns), said, strict=False)))
        elif columns is None:
            yield _of_version_1(name, said, document)
        else:
            yield name


def _of_version_2(name: str, said: Mapping[str, Any]) -> _Benchmark:
    stats = {key: value for key in (*_STATS, *_COUNTS) if isinstance(value := said.get(f"stats_{key}"), list)}
    return _made(
        name,
        said.get("result"),
        said.get("params"),
        said.get("version"),
        stats,
        said.get("samples"),
    )


def _of_version_1(name: str, said: Any, document: Mapping[str, Any]) -> _Benchmark:
    """Read a plain number, a list, or an object with the results of all combinations."""
    about = said if isinstance(said, dict) else {"result": said}
    given = about.get("stats")
    each = [one if isinstance(one, dict) else {} for one in (given if isinstance(given, list) else [given])]
    stats = {key: [one.get(key) for one in each] for key in ("q_25", "q_75", *_COUNTS)}
    bounds = [one.get("ci_99") for one in each]
    for place, key in enumerate(("ci_99_a", "ci_99_b")):
        stats[key] = [_at(bound, place) for bound in bounds]
    version = object_in(document, "benchmark_version").get(name)
    return _made(name, about.get("result"), about.get("params"), version, stats, about.get("samples"))


def _made(
    name: str, result: Any, params: Any, version: Any, stats: Mapping[str, Sequence[Any]], samples: Any
) -> _Benchmark:
    axes = (
        [[str(value) for value in axis] for axis in params if isinstance(axis, list)]
        if isinstance(params, list)
        else []
    )
    results = result if isinstance(result, list) or result is None else [result]
    known = samples if isinstance(samples, list) else []
    return _Benchmark(name, results, axes, version if isinstance(version, str) else None, stats, known)


def _at(values: Any, number: int) -> Any:
    return values[number] if isinstance(values, list) and number < len(values) else None


def _shown(value: str) -> str:
    """Return a parameter as asv shows it: a text without its quotes."""
    found = _TEXT.fullmatch(value)
    return (found[1] or found[2] or value) if found else value


def _moment(milliseconds: Any) -> datetime:
    if not is_number(milliseconds):
        raise ValueError("expected milliseconds since 1970")
    return moment_of(milliseconds / 1000)


def _read_beside(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    found = document_of(path)
    return {} if isinstance(found, Mistake) else found
