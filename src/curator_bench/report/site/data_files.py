"""What the programs of pages read: scripts that hand over data. A page opened from a folder may load no other.

The largest part of a site. Numbers are written with seven digits: more than anybody measures, and half the size.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curator_bench.report.site import words
from curator_bench.report.site.model import (
    Directions,
    RunFacts,
    SessionFacts,
    ShiftFacts,
    SiteEntry,
    is_number,
)
from curator_bench.values import Scalar

_LONGEST = 300


@dataclass(frozen=True, slots=True)
class EntryView:
    """An entry with all that its page needs."""

    entry: SiteEntry
    runs: Sequence[RunFacts]
    metrics: Sequence[str]
    """Those that are numbers, the ones with a direction first; without those that stand beside another."""
    directions: Directions
    shifts: Sequence[ShiftFacts]

    def values(self, metric: str) -> list[float | None]:
        return [number_of(run.metrics.get(metric)) for run in self.runs]


def number_of(value: Scalar) -> float | None:
    """A number that can be drawn."""
    if not is_number(value):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def handed_over(key: str, json_text: str) -> str:
    """A script that gives the page this data. JSON is a part of JavaScript, and no letter in it is left unescaped."""
    return f"benchData({json.dumps(key)},{json_text});\n"


def as_json(value: Any) -> str:
    """One line, in ASCII. NaN and the infinities, which JSON does not have, are null."""
    text = json.dumps(value, separators=(",", ":"), default=str)
    if "NaN" in text or "Infinity" in text:
        text = json.dumps(json.loads(text, parse_constant=lambda _: None), separators=(",", ":"))
    return text


def numbers(values: Iterable[float | None]) -> str:
    """As JSON."""
    written = ("null" if value is None else f"{value:.7g}" for value in values)
    return f"[{','.join(written)}]"


class DataFiles:
    """Writes them below `data/` of the site."""

    def __init__(self, site: Path) -> None:
        self._folder = site / "data"
        self._of_sessions: dict[str, list[str]] = {}
        for name in ("entries", "sessions"):
            (self._folder / name).mkdir(parents=True)

    def write_entry(self, view: EntryView, sessions: Mapping[str, SessionFacts], logs: Sequence[str | None]) -> None:
        """The runs of an entry in one file, each of its metrics in another: a page draws one metric at a time."""
        slug = view.entry.slug
        self._write(f"entries/{slug}", as_json(_runs(view, sessions, logs)))
        columns = [view.values(metric) for metric in view.metrics]
        for place, metric in enumerate(view.metrics):
            self._write(f"entries/{slug}.{place}", _metric(view, metric, columns[place]))
        self._note_runs(view, columns, sessions)

    def _note_runs(
        self, view: EntryView, columns: Sequence[Sequence[float | None]], sessions: Mapping[str, SessionFacts]
    ) -> None:
        """The last run of an entry in a session, for the page that compares sessions."""
        last = {run.session_uid: place for place, run in enumerate(view.runs) if run.session_uid in sessions}
        name = json.dumps(view.entry.slug)
        for uid, place in last.items():
            run = view.runs[place]
            facts = json.dumps([run.verdict, run.machine, run.definition])
            measured = numbers(column[place] for column in columns)
            self._of_sessions.setdefault(uid, []).append(f"{name}:[{facts[1:-1]},{measured}]")

    def write_session(self, session: SessionFacts) -> None:
        facts = {
            "name": session.name,
            "slug": session.slug,
            "start": session.start.timestamp() if session.start else None,
            "commit": session.commit,
            "branch": session.branch,
            "environment": session.environment,
        }
        runs = ",".join(self._of_sessions.pop(session.uid, ()))
        self._write(f"sessions/{session.slug}", f'{as_json(facts)[:-1]},"runs":{{{runs}}}}}')

    def write_index(self, views: Sequence[Mapping[str, Any]], sessions: Sequence[SessionFacts]) -> None:
        """For searching, and for choosing what to compare."""
        listed = [[one.slug, one.name, words.moment(one.start), one.commit, one.branch] for one in reversed(sessions)]
        self._write("index", as_json({"entries": views, "sessions": listed}))

    def _write(self, key: str, json_text: str) -> None:
        (self._folder / f"{key}.js").write_text(handed_over(key, json_text), encoding="ascii")


def index_of(view: EntryView) -> dict[str, Any]:
    """What the index says of an entry. The spread is that of runs which compare with the newest."""
    newest = view.runs[-1]
    alike = [run for run in view.runs[-200:] if (run.machine, run.definition) == (newest.machine, newest.definition)]
    spreads = []
    for metric in view.metrics:
        values = [number for run in alike if (number := number_of(run.metrics.get(metric))) is not None]
        spreads.append(words.spread(values))
    return {
        "slug": view.entry.slug,
        "name": view.entry.name,
        "path": view.entry.path,
        "metrics": view.metrics,
        "better": [view.directions.better.get(metric) for metric in view.metrics],
        "spread": [None if spread is None else float(f"{spread:.3g}") for spread in spreads],
    }


def _runs(view: EntryView, sessions: Mapping[str, SessionFacts], logs: Sequence[str | None]) -> dict[str, Any]:
    known: dict[str, int] = {}
    listed, verdicts, machines, definitions = [], _Numbered(), _Numbered(), _Numbered()
    for run in view.runs:
        if run.session_uid not in known:
            known[run.session_uid] = len(known)
            facts = sessions.get(run.session_uid)
            subjects = ", ".join(one.shown for one in facts.subjects) if facts else ""
            listed.append([facts.slug if facts else None, run.session, run.commit, run.branch, subjects])
    return {
        "entry": view.entry.slug,
        "sessions": listed,
        "time": [round(run.start.timestamp(), 3) for run in view.runs],
        "session": [known[run.session_uid] for run in view.runs],
        "verdict": [verdicts.of(run.verdict) for run in view.runs],
        "machine": [machines.of(run.machine or "") for run in view.runs],
        "definition": [definitions.of(run.definition or "") for run in view.runs],
        "uid": [run.uid[:12] for run in view.runs],
        "log": logs,
        "why": {place: run.why[:_LONGEST] for place, run in enumerate(view.runs) if run.why},
        "attempt": {place: run.attempt for place, run in enumerate(view.runs) if run.attempt > 1},
        "verdicts": verdicts.names,
        "machines": machines.names,
        "definitions": definitions.names,
    }


class _Numbered:
    """Names by the order in which they first came."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    @property
    def names(self) -> list[str]:
        return list(self._numbers)


def _metric(view: EntryView, metric: str, values: Sequence[float | None]) -> str:
    head = {
        "name": metric,
        "better": view.directions.better.get(metric),
        "shifts": [_shift(shift) for shift in view.shifts if shift.metric == metric],
    }
    columns = {"values": numbers(values)}
    for end in ("min", "max"):
        if f"{metric}_{end}" in view.directions.beside:
            columns[end] = numbers(view.values(f"{metric}_{end}"))
    return f"{as_json(head)[:-1]},{','.join(f'{json.dumps(name)}:{column}' for name, column in columns.items())}}}"


def _shift(shift: ShiftFacts) -> dict[str, Any]:
    return {
        "machine": shift.machine or "",
        "time": round(shift.first.start.timestamp(), 3),
        "kind": shift.kind,
        "state": shift.state,
        "change": words.change(shift.change),
        "before": shift.before.commit,
        "first": shift.first.commit,
    }
