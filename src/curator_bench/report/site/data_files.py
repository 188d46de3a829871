"""The data of the pages, as scripts: a page opened from a folder cannot load anything else.

Data is most of a dashboard's size. Numbers have seven digits, which is more than can be measured, at half the size.
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
    ComparedFacts,
    Directions,
    RunFacts,
    SeriesFacts,
    SessionFacts,
    SiteEntry,
    StepFacts,
    is_number,
)
from curator_bench.values import Scalar

_LONGEST = 300


@dataclass(frozen=True, slots=True)
class EntryView:
    """An entry with all its page needs."""

    entry: SiteEntry
    runs: Sequence[RunFacts]
    metrics: Sequence[str]
    """Numeric metrics in display order, without those shown beside another."""
    directions: Directions
    steps: Sequence[StepFacts]
    series: Sequence[SeriesFacts] = ()

    def values(self, metric: str) -> list[float | None]:
        return [number_of(run.metrics.get(metric)) for run in self.runs]


def number_of(value: Scalar) -> float | None:
    """Return the value as a float if it is a finite number, else None."""
    if not is_number(value):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def handed_over(key: str, json_text: str) -> str:
    """Return a script that passes this data to the page. JSON is part of JavaScript; here it is escaped to ASCII."""
    return f"benchData({json.dumps(key)},{json_text});\n"


def as_json(value: Any) -> str:
    """Return the value as JSON, in one line of ASCII. NaN and infinities become null."""
    text = json.dumps(value, separators=(",", ":"), default=str)
    if "NaN" in text or "Infinity" in text:
        text = json.dumps(json.loads(text, parse_constant=lambda _: None), separators=(",", ":"))
    return text


def numbers(values: Iterable[float | None]) -> str:
    """Return the numbers as a JSON array."""
    written = ("null" if value is None else f"{value:.7g}" for value in values)
    return f"[{','.join(written)}]"


class DataFiles:
    """Writes data files below `data/` of the dashboard."""

    def __init__(self, site: Path) -> None:
        self._folder = site / "data"
        self._of_sessions: dict[str, list[str]] = {}
        for name in ("entries", "sessions"):
            (self._folder / name).mkdir(parents=True)

    def write_entry(self, view: EntryView, sessions: Mapping[str, SessionFacts], logs: Sequence[str | None]) -> None:
        """Write the runs of an entry to one file, and each metric to another: a page draws one metric at a time."""
        slug = view.entry.slug
        self._write(f"entries/{slug}", as_json(_runs(view, sessions, logs)))
        columns = [view.values(metric) for metric in view.metrics]
        for place, metric in enumerate(view.metrics):
            self._write(f"entries/{slug}.{place}", _metric(view, metric, columns[place]))
        self._note_runs(view, columns, sessions)

    def _note_runs(
        self, view: EntryView, columns: Sequence[Sequence[float | None]], sessions: Mapping[str, SessionFacts]
    ) -> None:
        """Note the last run of an entry in each session, for the page that compares sessions."""
        last = {run.session_uid: place for place, run in enumerate(view.runs) if run.session_uid in sessions}
        name = json.dumps(view.entry.slug)
        for uid, place in last.items():
            run = view.runs[place]
            facts = json.dumps([run.verdict, run.machine, run.definition])
            measured = numbers(column[place] for column in columns)
            self._of_sessions.setdefault(uid, []).append(f"{name}:[{facts[1:-1]},{measured}]")

    def write_session(self, session: SessionFacts, compared: Mapping[str, Sequence[ComparedFacts]]) -> None:
        """Write the data of a session.

        `compared` holds its judgements against other sessions, by the name of their page.
        """
        facts = {
            "name": session.name,
            "slug": session.slug,
            "start": session.start.timestamp() if session.start else None,
            "commit": session.commit,
            "branch": session.branch,
            "environment": session.environment,
        }
        runs = ",".join(self._of_sessions.pop(session.uid, ()))
        judged = as_json({slug: [_compared(one) for one in found] for slug, found in compared.items()})
        self._write(f"sessions/{session.slug}", f'{as_json(facts)[:-1]},"compared":{judged},"runs":{{{runs}}}}}')

    def write_index(self, views: Sequence[Mapping[str, Any]], sessions: Sequence[SessionFacts]) -> None:
        """Write the index for searching, and for choosing sessions to compare."""
        listed = [[one.slug, one.name, words.moment(one.start), one.commit, one.branch] for one in reversed(sessions)]
        self._write("index", as_json({"entries": views, "sessions": listed}))

    def _write(self, key: str, json_text: str) -> None:
        (self._folder / f"{key}.js").write_text(handed_over(key, json_text), encoding="ascii")


def index_of(view: EntryView) -> dict[str, Any]:
    """Return the facts of an entry for the search and for the page that compares sessions."""
    return {
        "slug": view.entry.slug,
        "name": view.entry.name,
        "path": view.entry.path,
        "metrics": view.metrics,
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
    """Numbers names in order of first use."""

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
        "steps": [_step(step) for step in view.steps if step.metric == metric],
        "judged": {one.machine or "": _judged(one) for one in view.series if one.metric == metric},
    }
    columns = {"values": numbers(values)}
    for end in ("min", "max"):
        if f"{metric}_{end}" in view.directions.beside:
            columns[end] = numbers(view.values(f"{metric}_{end}"))
    return f"{as_json(head)[:-1]},{','.join(f'{json.dumps(name)}:{column}' for name, column in columns.items())}}}"


def _step(step: StepFacts) -> dict[str, Any]:
    return {
        "machine": step.machine or "",
        "time": round(step.first.start.timestamp(), 3),
        "kind": step.kind,
        "state": step.state,
        "change": words.change(step.change),
        "before": step.before.commit,
        "first": step.first.commit,
    }


def _judged(one: SeriesFacts) -> dict[str, Any]:
    """Return the judgement of the newest runs, and the levels: start, end, middle, noise in the metric's unit."""
    levels = [
        [round(level.start.timestamp(), 3), round(level.end.timestamp(), 3), level.middle, level.noise * level.middle]
        for level in one.levels
    ]
    return {"says": one.says, "reason": one.reason, "decides": one.decides, "sees": words.sight(one), "levels": levels}


def _compared(one: ComparedFacts) -> list[Any]:
    low, high = one.interval or (None, None)
    figures = (one.before, one.after, one.change, low, high, one.visible)
    shown = [None if figure is None else float(f"{figure:.7g}") for figure in figures]
    return [one.entry.slug, one.metric, one.machine or "", one.says, one.reason, *shown]
