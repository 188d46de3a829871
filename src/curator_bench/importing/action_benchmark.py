"""The data of github-action-benchmark, in and out: `data.js`, the same as JSON, and the results of a custom tool.

A suite at a commit is a session, and each result a run. What we write says in its text `extra` what it is a metric of.
So it is read again as the run that it was.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from curator_bench.errors import Mistake
from curator_bench.files.codec import parsed
from curator_bench.importing.found_runs import (
    Found,
    FoundRun,
    is_number,
    moment_of,
    object_in,
    stable_uid,
    whole_text,
    written_at,
)
from curator_bench.importing.units import metric_in
from curator_bench.store.records import InvocationRecord, RunEnd, RunStart, SessionRecord, StoredRun
from curator_bench.values import Place, Scalar, Verdict

SCRIPT = "window.BENCHMARK_DATA"
_OURS = "curator-bench: "
_TOOLS = {"less": "customSmallerIsBetter", "more": "customBiggerIsBetter"}
_SUITES = {"less": "Less is better", "more": "More is better", "": "Others"}


class _Suite(NamedTuple):
    """A suite at a commit, which all of its results share."""

    session: SessionRecord
    invocation: InvocationRecord | None
    path: str
    moment: datetime


class _Known(NamedTuple):
    """The place of a result that we wrote."""

    uid: str
    path: str
    name: str
    machine: str
    start: str
    session: str
    session_uid: str
    metric: str


def recognizes(document: Mapping[str, Any]) -> bool:
    entries = document.get("entries")
    return isinstance(entries, dict) and ("lastUpdate" in document or "repoUrl" in document)


def is_list_of_results(text: str) -> bool:
    """True for the results of a custom tool: a list of objects with name, unit and value."""
    try:
        found = parsed(text)
    except ValueError:
        return False
    return isinstance(found, list) and any(isinstance(one, dict) and {"name", "value"} <= one.keys() for one in found)


def read(path: Path) -> Iterator[Found]:
    """Read data.js, or the same as JSON."""
    text = whole_text(path).strip()
    text = text.partition("=")[2].strip().removesuffix(";") if text.startswith(SCRIPT) else text
    place = Place(str(path), 0)
    try:
        document = parsed(text)
    except ValueError as error:
        yield Mistake(place, "", f"no JSON: {error}")
        return
    own = _OwnRuns()
    for name, suites in object_in(document if isinstance(document, dict) else {}, "entries").items():
        for number, said in enumerate(suites if isinstance(suites, list) else ()):
            where = f"entries.{name}[{number}]"
            try:
                suite = _suite(name, said)
            except ValueError as error:
                yield Mistake(place, where, str(error))
                continue
            yield from _runs(suite, said["benches"], place, where, own)
    yield from own.found(place)


def read_list(path: Path) -> Iterator[Found]:
    """Read the results of a custom tool, which say neither time nor commit."""
    moment, results = written_at(path), parsed(whole_text(path))
    uid = stable_uid("github-action-benchmark", json.dumps(results, sort_keys=True))
    session = SessionRecord(f"github-action-benchmark__{moment:%Y-%m-%d__%H-%M-%S}_UTC", "", uid)
    own = _OwnRuns()
    yield from _runs(_Suite(session, None, "", moment), results, Place(str(path), 0), "", own)
    yield from own.found(Place(str(path), 0))


def _suite(name: str, said: Any) -> _Suite:
    """Raise ValueError if it is none."""
    if not isinstance(said, dict) or not isinstance(said.get("benches"), list) or not is_number(said.get("date")):
        raise ValueError("expected an object with commit, date and benches")
    commit, moment = object_in(said, "commit"), moment_of(said["date"] / 1000)
    known = commit.get("id")
    uid = stable_uid("github-action-benchmark", known, said["date"])
    session = SessionRecord(
        f"github-action-benchmark__{moment:%Y-%m-%d__%H-%M-%S}_UTC",
        "",
        uid,
        commit=known if isinstance(known, str) and known else None,
    )
    about = {key: commit[key] for key in ("message", "url", "timestamp") if commit.get(key)}
    facts = {"commit": about, "tool": said.get("tool")}
    invocation = InvocationRecord(stable_uid(uid, "invocation"), moment, environment=facts, end=moment)
    return _Suite(session, invocation, "" if name in _SUITES.values() else name, moment)


class _OwnRuns:
    """Runs that we wrote. Their metrics stand in several suites, by the direction that is better."""

    def __init__(self) -> None:
        self._metrics: dict[_Known, dict[str, Scalar]] = defaultdict(dict)
        self._commits: dict[_Known, str | None] = {}

    def add(self, known: _Known, value: float, commit: str | None) -> None:
        run = known._replace(metric="")
        self._metrics[run][known.metric] = value
        self._commits[run] = commit

    def found(self, place: Place) -> Iterator[Found]:
        for known, metrics in self._metrics.items():
            try:
                yield FoundRun(_own(known, metrics, self._commits[known]), place, known.name, adds=True)
            except ValueError as error:
                yield Mistake(place, known.name, str(error))


def _runs(suite: _Suite, results: Iterable[Any], place: Place, where: str, own: _OwnRuns) -> Iterator[Found]:
    """Yield the runs of a suite. Those that we wrote are noted as our own."""
    for number, said in enumerate(results):
        at = f"{where}.benches[{number}]" if where else f"[{number}]"
        if not isinstance(said, dict) or not isinstance(said.get("name"), str) or not is_number(said.get("value")):
            yield Mistake(place, at, "expected an object with name, unit and value")
        elif (known := _read_extra(said)) is not None:
            own.add(known, said["value"], suite.session.commit)
        else:
            yield FoundRun(_foreign(suite, said, number), place, at)


def _foreign(suite: _Suite, said: Mapping[str, Any], number: int) -> StoredRun:
    metric, factor = metric_in(str(said.get("unit") or ""))
    name, value = said["name"], said["value"]
    start = RunStart(
        name or f"result {number + 1}",
        suite.path,
        suite.moment,
        stable_uid(suite.session.uid, suite.path, name, number),
    )
    params = {"unit": said["unit"]} if said.get("unit") else {}  # range and extra are measured, too
    metrics: dict[str, Scalar] = {metric: value if factor == 1 else value * factor}
    return StoredRun(
        suite.session, suite.invocation, start, RunEnd(Verdict.PASSED, suite.moment, metrics=metrics, params=params)
    )


def _own(known: _Known, metrics: Mapping[str, Scalar], commit: str | None) -> StoredRun:
    moment = moment_of(known.start)
    start = RunStart(
        known.name,
        known.path,
        moment,
        known.uid,
        originalname=known.name.partition("[")[0],
        machine_id=known.machine or None,
    )
    session = SessionRecord(known.session, "", known.session_uid, commit=commit)
    return StoredRun(session, None, start, RunEnd(Verdict.PASSED, moment, metrics=metrics))


def _read_extra(said: Mapping[str, Any]) -> _Known | None:
    """Return where a result belongs that we wrote; None for those of others."""
    extra = said.get("extra")
    if not isinstance(extra, str) or not extra.startswith(_OURS):
        return None
    try:
        found = parsed(extra.removeprefix(_OURS))
    except ValueError:
        return None
    said = found if isinstance(found, dict) else {}
    texts = [text for key in _Known._fields if isinstance(text := said.get(key), str)]
    known = _Known(*texts) if len(texts) == len(_Known._fields) else None
    return known if known and all((known.uid, known.name, known.session, known.session_uid, known.metric)) else None


@dataclass(slots=True)
class _Point:
    """The results of a session in one suite."""

    commit: str | None
    moment: datetime
    results: list[dict[str, Any]] = field(default_factory=list)


def text_of(runs: Iterable[StoredRun], better: Callable[[str], str | None], *, as_script: bool) -> str:
    """Return runs as data of github-action-benchmark. `better` says less or more of a metric, or None."""
    suites: dict[str, dict[tuple[str, int], _Point]] = {name: {} for name in _SUITES.values()}
    seen: Counter[tuple[str, ...]] = Counter()
    for run in sorted(runs, key=lambda run: (run.start.start, run.start.uid)):
        start = run.start
        entry = run.session.uid, start.path, start.name, start.machine_id or ""
        for metric, value in run.end.metrics.items():
            if is_number(value) and math.isfinite(value):
                points = suites[_SUITES[better(metric) or ""]]
                point = points.setdefault((run.session.uid, seen[entry]), _Point(run.session.commit, start.start))
                point.results.append(_result(run, metric, value))
        seen[entry] += 1  # an entry that ran again in its session is a point of its own
    moments = [point.moment for points in suites.values() for point in points.values()]
    document = {
        "lastUpdate": max(map(_milliseconds, moments), default=0),
        "repoUrl": "",
        "entries": {
            name: [_entry(_TOOLS.get(word, _TOOLS["less"]), point) for point in suites[name].values()]
            for word, name in _SUITES.items()
            if suites[name]
        },
    }
    text = json.dumps(document, indent=2, ensure_ascii=False)
    return f"{SCRIPT} = {text}\n" if as_script else f"{text}\n"


def _entry(tool: str, point: _Point) -> dict[str, Any]:
    nobody = {"name": "", "username": "", "email": ""}
    commit = {
        "id": point.commit or "",
        "message": "",
        "timestamp": point.moment.isoformat(),
        "url": "",
        "author": nobody,
        "committer": nobody,
    }
    return {"commit": commit, "date": _milliseconds(point.moment), "tool": tool, "benches": point.results}


def _result(run: StoredRun, metric: str, value: float) -> dict[str, Any]:
    start = run.start
    known = _Known(
        start.uid,
        start.path,
        start.name,
        start.machine_id or "",
        start.start.isoformat(),
        run.session.name,
        run.session.uid,
        metric,
    )
    spread = run.end.metrics.get(f"{metric}_std")
    return {
        "name": f"{start.name} {metric}",
        "value": value,
        "unit": _unit(metric),
        **({"range": f"± {spread:.4g}"} if is_number(spread) else {}),
        "extra": _OURS + json.dumps(known._asdict(), ensure_ascii=False),
    }


def _unit(metric: str) -> str:
    if "per_" in metric:
        return "/".join(part.rpartition("_")[2] for part in map(str.strip, metric.replace("_per_", " ").split()))
    return "s" if metric.endswith("_s") else "bytes" if metric.endswith("_bytes") else ""


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
