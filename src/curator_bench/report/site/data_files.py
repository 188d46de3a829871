"""The data of the pages, as scripts: a page opened from a folder cannot load anything else.

Data is most of a dashboard's size. Numbers have seven digits, which is more than can be measured, at half the size.
The runs of an entry are in blocks: a new run changes the last one only.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from curator_bench.metric_names import is_secondary
from curator_bench.report.site import words
from curator_bench.report.site.families import Family
from curator_bench.report.site.model import (
    CommitFacts,
    ComparedFacts,
    GroupFacts,
    RunFacts,
    SessionFacts,
    SiteEntry,
    StepFacts,
    is_number,
    numbers_of,
)
from curator_bench.values import MACHINE, Scalar

_LONGEST, _LONGEST_PARAMETER = 300, 80


def number_of(value: Scalar) -> float | None:
    """Return the value as a float if it is a finite number, else None."""
    if type(value) is float:  # nearly all are
        return value if math.isfinite(value) else None
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


@dataclass(frozen=True, slots=True)
class MetricFacts:
    """A metric of an entry, as its page lists it."""

    name: str
    better: str | None
    is_required: bool
    has_chart: bool


def head(
    entry: SiteEntry, original: str, metrics: Sequence[MetricFacts], blocks: Sequence[tuple[int, str]], machines: Any
) -> str:
    """Return what a page loads first: the metrics, the blocks with their numbers of runs, and the machines."""
    listed = [[one.name, one.better, one.is_required, one.has_chart] for one in metrics]
    return as_json(
        {
            "name": entry.name,
            "path": entry.path,
            "original": original,
            "metrics": listed,
            "blocks": blocks,
            "machines": machines,
        }
    )


def block(runs: Sequence[RunFacts], logs: Sequence[str | None]) -> str:
    """Return consecutive runs of an entry, column by column."""
    known: dict[tuple[str, str | None], int] = {}
    listed: list[list[Any]] = []
    verdicts, machines, kinds, definitions = Numbered(), Numbered(), Numbered(), Numbered()
    for run in runs:
        if (run.session_uid, run.commit) not in known:
            known[run.session_uid, run.commit] = len(known)
            listed.append([run.session_slug, run.session, run.commit, run.branch, run.subjects])
    facts = {
        "sessions": listed,
        "time": [round((run.place or run.start).timestamp(), 3) for run in runs],
        "began": {place: round(run.start.timestamp(), 3) for place, run in enumerate(runs) if run.place},
        "session": [known[run.session_uid, run.commit] for run in runs],
        "verdict": [verdicts.of(run.verdict) for run in runs],
        "machine": [machines.of(run.machine or "") for run in runs],
        "kind": [kinds.of(run.series or "") for run in runs],
        "definition": [definitions.of(run.definition or "") for run in runs],
        "uid": [run.uid[:12] for run in runs],
        "log": {place: log for place, log in enumerate(logs) if log},
        "why": {place: run.why[:_LONGEST] for place, run in enumerate(runs) if run.why},
        "verdicts": verdicts.names,
        "machines": machines.names,
        "kinds": kinds.names,
        "definitions": definitions.names,
    }
    columns = (
        f"{json.dumps(name)}:{numbers(number_of(run.metrics.get(name)) for run in runs)}" for name in drawn_names(runs)
    )
    return f'{as_json(facts)[:-1]},"values":{{{",".join(columns)}}}}}'


def drawn_names(runs: Sequence[RunFacts]) -> list[str]:
    """Return the names of numeric metrics that pages show, and of the least and greatest values of their repeats."""
    names = list(numbers_of(runs))
    ends = {f"{name}_{end}" for name in names for end in ("min", "max")}
    return [name for name in names if name in ends or not is_secondary(name, names)]


def judged(group: GroupFacts) -> str:
    """Return the judgement of an entry on one machine, by metric."""
    found: dict[str, dict[str, Any]] = {one.metric: {} for one in group.series}
    for one in group.series:
        levels = [
            [round(level.start.timestamp(), 3), round(level.end.timestamp(), 3), level.middle, level.noise]
            for level in one.levels
        ]
        found[one.metric] = {
            "says": one.says,
            "reason": one.reason,
            "decides": one.decides,
            "sees": words.sight(one),
            "levels": levels,
            "steps": [_step(step) for step in group.steps if step.metric == one.metric],
        }
    return as_json(found)


def _step(step: StepFacts) -> dict[str, Any]:
    return {
        "time": round(step.first.start.timestamp(), 3),
        "kind": step.kind,
        "state": step.state,
        "change": words.change(step.change),
        "before": step.before.commit,
        "first": step.first.commit,
    }


def session(one: SessionFacts, ran: Sequence[tuple[SiteEntry, RunFacts]]) -> str:
    """Return the last run of each entry in a session on each machine, with all numbers, for the pages that compare.

    `runs` has the last one of each entry, `elsewhere` those on its other machines. Disturbed runs are left out.
    """
    facts = {
        "name": one.name,
        "slug": one.slug,
        "start": one.start.timestamp() if one.start else None,
        "commit": one.commit,
        "branch": one.branch,
        "environment": one.environment,
        "packages": {f"package {name}": version for name, version in one.packages.items()},
        "variables": one.variables,
        "configuration": one.configuration,
    }
    ran = [one for one in ran if not one[1].disturbed]
    last = {entry.slug: run for entry, run in ran}
    by_machine: dict[str, dict[str, RunFacts]] = defaultdict(dict)
    for entry, run in ran:
        by_machine[entry.slug][run.machine or ""] = run
    names, texts = Numbered(), Numbered()
    runs = [f"{json.dumps(slug)}:{_last_run(run, names, texts)}" for slug, run in sorted(last.items())]
    elsewhere = [
        f"{json.dumps(slug)}:[{','.join(_last_run(run, names, texts) for run in others)}]"
        for slug, known in sorted(by_machine.items())
        if (others := [run for _, run in sorted(known.items()) if run is not last[slug]])
    ]
    lists = f'"metrics":{as_json(names.names)},"texts":{as_json(texts.names)}'
    return f'{as_json(facts)[:-1]},{lists},"runs":{{{",".join(runs)}}},"elsewhere":{{{",".join(elsewhere)}}}}}'


def _last_run(run: RunFacts, names: Numbered, texts: Numbered) -> str:
    own = sorted((name, value) for name, value in run.metrics.items() if not name.startswith(MACHINE))
    measured = [(name, number_of(value)) for name, value in own]
    kept = [(names.of(name), value) for name, value in measured if value is not None]
    of = as_json([run.verdict, run.machine, run.series, [place for place, _ in kept]])
    parameters = [[texts.of(name), texts.of(_short(said))] for name, said in sorted(run.parameters.items())]
    beside = as_json([texts.of(run.definition or ""), parameters])
    return f"{of[:-1]},{numbers(value for _, value in kept)},{beside[1:]}"


def _short(said: str) -> str:
    """Cut a long text. What is left differs where the text does."""
    if len(said) <= _LONGEST_PARAMETER:
        return said
    digest = hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{said[:_LONGEST_PARAMETER]}… ({digest})"


def compared(found: Sequence[ComparedFacts]) -> str:
    """Return the judgement of one session against another."""
    return as_json([_compared(one) for one in found])


def _compared(one: ComparedFacts) -> list[Any]:
    low, high = one.interval or (None, None)
    figures = (one.before, one.after, one.change, low, high, one.visible)
    shown = [None if figure is None else float(f"{figure:.7g}") for figure in figures]
    return [one.entry.slug, one.metric, one.machine or "", one.says, one.reason, *shown]


def index(entries: Sequence[Mapping[str, Any]], sessions: Sequence[SessionFacts], compared: Sequence[str]) -> str:
    """Return the index for searching, and for choosing sessions; `compared` are the pairs that are judged."""
    listed = [[one.slug, one.name, words.moment(one.start), one.commit, one.branch] for one in reversed(sessions)]
    return as_json({"entries": entries, "sessions": listed, "compared": compared})


def axes(families: Sequence[Family]) -> str:
    """Return the axes of entries, and which entry stands for which of their values."""
    return as_json(
        [
            {
                "slug": one.family.slug,
                "name": one.family.name,
                "path": one.family.path,
                "latest": one.latest,
                "axes": one.axes,
                "members": {slug: one.place(values) for slug, values in one.members.items()},
            }
            for one in families
        ]
    )


def commits(known: Mapping[str, CommitFacts]) -> str:
    """Return subject and author of commits, by the name that runs have them under."""
    return as_json({name: [one.subject, one.author] for name, one in sorted(known.items())})


class Numbered:
    """Numbers names in order of first use."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    @property
    def names(self) -> list[str]:
        return list(self._numbers)
