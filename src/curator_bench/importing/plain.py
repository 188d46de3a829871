"""Import of one measurement per line: {"name": "sorting", "metric": "exec_time_s", "value": 1.5, "time":
"2026-01-23T14:30:00Z", "commit": "3f2c1ab"}.

`commit` is optional; so are `branch`, `machine`, `path` and `session`. Any other key becomes a param. Lines with the
same name, time, commit and machine are metrics of one run. If a metric is repeated in them, each repetition is a run of
its own. All runs without a machine count as one machine's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from curator_bench.errors import Mistake
from curator_bench.files.codec import NOT_FINITE, number_of
from curator_bench.importing.found_runs import Found, FoundRun, documents, moment_of, stable_uid
from curator_bench.store.records import RunEnd, RunStart, SessionRecord, StoredRun
from curator_bench.values import Place, Scalar, Verdict

_NEEDED = ("name", "metric", "value", "time")
_TEXTS = ("commit", "branch", "machine", "path", "session")
_KNOWN = (*_NEEDED, *_TEXTS)
_COMMIT_SHOWN = 12


class _Key(NamedTuple):
    """Identity of a run."""

    name: str
    path: str
    time: datetime
    commit: str | None
    branch: str | None
    machine: str | None
    session: str | None


@dataclass(slots=True)
class _Run:
    place: Place
    metrics: dict[str, Scalar] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)


class _Runs:
    """The runs of a file by their identity. There may be a million lines."""

    def __init__(self) -> None:
        self._alike: dict[_Key, list[_Run]] = {}
        self._repeated: dict[tuple[_Key, str], int] = {}
        """Number of runs of a key that have the metric, if not one."""

    def run_for(self, key: _Key, metric: str, place: Place) -> _Run:
        """First run of the key without this metric; a new one if all have it."""
        alike = self._alike.setdefault(key, [])
        number = self._repeated.get((key, metric), 1 if alike and metric in alike[0].metrics else 0)
        if number:
            self._repeated[key, metric] = number + 1
        if number == len(alike):
            alike.append(_Run(place))
        return alike[number]

    def __iter__(self) -> Iterator[tuple[_Key, int, _Run]]:
        for key, alike in self._alike.items():
            for number, run in enumerate(alike):
                yield key, number, run


def recognizes(document: Mapping[str, Any]) -> bool:
    return "metric" in document or {"name", "value"} <= document.keys()


def read(path: Path) -> Iterator[Found]:
    runs = _Runs()
    for item in documents(path):
        if isinstance(item, Mistake):
            yield item
            continue
        place, document = item
        problems = list(_problems(document))
        if problems:
            yield from (Mistake(place, "", problem) for problem in problems)
            continue
        _add(runs.run_for(_key_of(document), document["metric"], place), document)
    for key, number, run in runs:
        yield FoundRun(_record(key, number, run), run.place, adds=True)


def _problems(document: Mapping[str, Any]) -> Iterator[str]:
    for name in _NEEDED:
        if name not in document:
            close = get_close_matches(name, document.keys() - set(_KNOWN), n=1, cutoff=0.6)
            yield f"{name} is missing" + (f"; is it {close[0]!r}?" if close else "")
    for name in ("name", "metric", *_TEXTS):
        said = document.get(name)
        if name in document and not _is_text(said, may_lack=name in _TEXTS):
            yield f"{name}: found {said!r}, expected a text"
    if "value" in document and not _is_value(document["value"]):
        yield f"value: found {document['value']!r}, expected a number"
    if "time" in document:
        try:
            moment_of(document["time"])
        except ValueError as error:
            yield f"time: found {document['time']!r}: {error}"


def _is_text(said: object, *, may_lack: bool) -> bool:
    return may_lack if said is None else isinstance(said, str) and said != ""


def _is_value(said: object) -> bool:
    return isinstance(said, int | float) or (isinstance(said, str) and said in NOT_FINITE)


def _key_of(document: Mapping[str, Any]) -> _Key:
    texts = {name: document.get(name) for name in ("commit", "branch", "machine", "session")}
    return _Key(document["name"], document.get("path") or "", moment_of(document["time"]), **texts)


def _add(run: _Run, document: Mapping[str, Any]) -> None:
    value = document["value"]
    run.metrics[document["metric"]] = number_of(value)
    run.params.update((name, said) for name, said in document.items() if name not in _KNOWN)


def _record(key: _Key, number: int, run: _Run) -> StoredRun:
    start = RunStart(
        name=key.name,
        originalname=key.name.partition("[")[0],
        path=key.path,
        start=key.time,
        uid=stable_uid("measurements", *key, number),
        machine_id=key.machine,
    )
    return StoredRun(
        _session(key), None, start, RunEnd(Verdict.PASSED, key.time, metrics=run.metrics, params=run.params)
    )


def _session(key: _Key) -> SessionRecord:
    """The session of a run: its own, or one per commit and day."""
    parts = ("imported", f"{key.time:%Y-%m-%d}", (key.commit or "")[:_COMMIT_SHOWN])
    name = key.session or "__".join(filter(None, parts))
    uid = stable_uid("measurements", name, key.commit, key.branch)
    return SessionRecord(name, "", uid, commit=key.commit, branch=key.branch)
