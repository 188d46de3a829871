"""Bencher's metric format (BMF), in and out: measures with a value, and a lower and an upper one, by benchmark.

A file says neither when nor at which commit it was measured: it is a session at the time of the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from curator_bench.errors import Mistake
from curator_bench.importing.found_runs import Found, FoundRun, document_of, is_number, stable_uid, written_at
from curator_bench.metric_names import is_secondary
from curator_bench.store.records import RunEnd, RunStart, SessionRecord, StoredRun
from curator_bench.values import Place, Scalar, Verdict

_ENDS = ("lower_value", "upper_value")
_ENDS_OF_REPEATS = {"lower_value": "min", "upper_value": "max"}


def recognizes(document: Mapping[str, Any]) -> bool:
    measures = [one for benchmark in document.values() if isinstance(benchmark, dict) for one in benchmark.values()]
    is_nested = bool(document) and all(isinstance(benchmark, dict) for benchmark in document.values())
    return is_nested and bool(measures) and all(isinstance(one, dict) and "value" in one for one in measures)


def read(path: Path) -> Iterator[Found]:
    document = document_of(path)
    if isinstance(document, Mistake):
        yield document
        return
    place, moment = Place(str(path), 0), written_at(path)
    uid = stable_uid("bencher", json.dumps(document, sort_keys=True))
    session = SessionRecord(f"bencher__{moment:%Y-%m-%d__%H-%M-%S}_UTC", "", uid)
    for name, measures in document.items():
        metrics: dict[str, Scalar] = {}
        for measure, said in measures.items():
            if not is_number(said.get("value")):
                yield Mistake(place, f"{name}.{measure}.value", f"found {said.get('value')!r}, expected a number")
                continue
            metrics[measure] = said["value"]
            metrics |= {f"{measure}_{end}": said[end] for end in _ENDS if is_number(said.get(end))}
        if name and metrics:
            path_said, _, own = name.rpartition("::")
            start = RunStart(own, path_said, moment, stable_uid(uid, name), originalname=own.partition("[")[0])
            record = StoredRun(session, None, start, RunEnd(Verdict.PASSED, moment, metrics=metrics))
            yield FoundRun(record, place, name)


def text_of(runs: Iterable[StoredRun]) -> str:
    """Return the newest run of each entry as a file of this format."""
    newest: dict[tuple[str, str], StoredRun] = {}
    for run in runs:
        key = run.start.path, run.start.name
        if key not in newest or newest[key].start.start <= run.start.start:
            newest[key] = run
    document = {
        f"{path}::{name}" if path else name: measures
        for (path, name), run in newest.items()
        if (measures := _measures(run.end.metrics))
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _measures(metrics: Mapping[str, Scalar]) -> dict[str, dict[str, float]]:
    """Return the numbers that are shown by measure. Those that belong to another one are its lower and upper values."""
    numbers = {name: value for name, value in metrics.items() if is_number(value) and abs(value) < float("inf")}
    found: dict[str, dict[str, float]] = {}
    ends = set()
    for name, value in numbers.items():
        found[name] = {"value": value}
        for end in _ENDS:
            for suffix in (end, _ENDS_OF_REPEATS[end]):
                if (own := f"{name}_{suffix}") in numbers and end not in found[name]:
                    found[name][end] = numbers[own]
                    ends.add(own)
    return {name: measure for name, measure in found.items() if name not in ends and not is_secondary(name, numbers)}
