"""A session's report in other formats: Markdown for pull requests, JSON for programs, JUnit XML for CI."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from xml.etree import ElementTree

from curator_bench.files.codec import json_text
from curator_bench.report.site import words
from curator_bench.report.site.model import FINE, DriftFacts, RunFacts, SeriesFacts, SessionFacts, SiteEntry, StepFacts
from curator_bench.words import markdown_cell

SCHEMA_VERSION = 1
_MOST_ROWS = 100
_MOST_CHANGES = 10
_MOST_STEPS = 10
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ChangeFacts:
    """An open finding, and what changed around it."""

    finding: str
    title: str
    """The most important change that it explains, and how many others."""
    since: datetime
    """Start of the first run that is certainly after it."""
    session: str
    steps: Sequence[StepFacts]
    """All that it explains, the most important first."""
    text: Sequence[str]
    markdown: Sequence[str]
    document: Mapping[str, Any]
    """The changes of a finding, in three forms."""


@dataclass(frozen=True, slots=True)
class SessionReport:
    """A session, its runs, and the state of their history."""

    session: SessionFacts
    runs: Sequence[tuple[SiteEntry, RunFacts]]
    regressions: Sequence[StepFacts]
    """Open regressions, newest first. Those that began with this session are marked as new."""
    improvements: Sequence[StepFacts]
    """Improvements that began with this session."""
    drifts: Sequence[DriftFacts] = ()
    series: Sequence[SeriesFacts] = ()
    """The judgement of the newest runs of every metric."""
    changes: Sequence[ChangeFacts] = ()
    """The open regressions by their cause, newest first."""
    left_out: Sequence[str] = ()
    """Runs of series that have ended, and why."""

    @property
    def broken(self) -> list[tuple[SiteEntry, RunFacts]]:
        return [(entry, run) for entry, run in self.runs if run.verdict not in FINE]

    @property
    def inconclusive(self) -> list[SeriesFacts]:
        return [one for one in self.series if one.says == "inconclusive"]

    @property
    def blind(self) -> list[SeriesFacts]:
        return [one for one in self.series if one.is_blind]


def as_text(form: str, report: SessionReport) -> str:
    """Return the text of the report. `form` is one of `markdown`, `json`, `junit`."""
    write: Mapping[str, Callable[[SessionReport], str]] = {"markdown": _markdown, "json": _json, "junit": _junit}
    return write[form](report)


def _markdown(report: SessionReport) -> str:
    session = report.session
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(session.verdicts.items())) or "no runs"
    of = [words.moment(session.start) + " UTC"]
    if session.commit:
        of.append(f"commit {session.commit[:12]}{' (changed)' if session.dirty else ''}")
    of += [text for text in (session.branch, session.reason) if text]
    lines = [f"## {markdown_cell(session.name)}: {counts}", "", markdown_cell(", ".join(of)), ""]
    lines += _markdown_findings(report.changes)
    if report.left_out:
        left_out = [f"* {markdown_cell(line)}" for line in report.left_out[:_MOST_ROWS]]
        lines += [
            "### Left out",
            "",
            "Runs that are not judged:",
            "",
            *left_out,
            "",
        ]
    if report.drifts:
        lines += ["### Drift", "", *(f"* {markdown_cell(drift_line(one))}" for one in report.drifts), ""]
    if report.broken:
        rows = [(entry.name, run.verdict, words.first_line(run.why)) for entry, run in report.broken]
        lines += ["### Broken", "", *_table(("entry", "verdict", "why"), rows), ""]
    lines += _markdown_series("Inconclusive", report.inconclusive, _why_inconclusive)
    lines += _markdown_steps("Improvements", report.improvements)
    lines += _markdown_series("Blind", report.blind, words.blindness)
    rows = [(entry.name, run.verdict, words.seconds(run.duration)) for entry, run in report.runs]
    lines += [
        "<details><summary>All runs</summary>",
        "",
        *_table(("entry", "verdict", "duration"), rows),
        "",
        "</details>",
    ]
    return "\n".join(lines) + "\n"


_STEP_HEADS = ("entry", "metric", "machine", "change", "95 % interval", "before → after", "since", "commits")


def _markdown_findings(found: Sequence[ChangeFacts]) -> list[str]:
    """Return a block for each finding: its line, what it explains, what changed. The oldest only get their line."""
    lines = ["### Regressions", "", *([] if found else ["None.", ""])]
    for place, one in enumerate(found[:_MOST_ROWS]):
        lines += [f"**{markdown_cell(one.title)}** {markdown_cell(_since(one))}", ""]
        if place < _MOST_CHANGES:
            table = _table(_STEP_HEADS, [_step_cells(step) for step in one.steps], _MOST_STEPS)
            lines += [*table, "", *one.markdown, ""]
    return [*lines, *([f"… and {len(found) - _MOST_ROWS} more", ""] if len(found) > _MOST_ROWS else [])]


def _since(one: ChangeFacts) -> str:
    is_new = any(step.is_new for step in one.steps)
    return f"since {'this session' if is_new else f'{one.session}, {words.moment(one.since)}'} ({one.finding})"


def _markdown_steps(title: str, steps: Sequence[StepFacts]) -> list[str]:
    if not steps:
        return [f"### {title}", "", "None.", ""]
    return [f"### {title}", "", *_table(_STEP_HEADS, [_step_cells(one) for one in steps]), ""]


def _markdown_series(title: str, series: Sequence[SeriesFacts], why: Callable[[SeriesFacts], str]) -> list[str]:
    if not series:
        return []
    rows = [(one.entry.name, one.metric, one.machine or "–", why(one)) for one in series]
    return [f"### {title}", "", *_table(("entry", "metric", "machine", "why"), rows), ""]


def _why_inconclusive(one: SeriesFacts) -> str:
    """Return why a series is inconclusive, and what would decide it."""
    return "; ".join(filter(None, [one.reason, one.decides]))


def drift_line(one: DriftFacts) -> str:
    """Return a line such as `load time_s has crept by +9.0 % since 2026-05-01 (1.00 s → 1.09 s)`."""
    on = f" on {one.machine}" if one.machine else ""
    levels = f"{words.value(one.level_before, one.metric)} → {words.value(one.level_after, one.metric)}"
    return f"{one.entry.name} {one.metric}{on} has crept by {words.change(one.change)} since {one.since} ({levels})"


def _step_cells(one: StepFacts) -> tuple[str, ...]:
    low, high = one.interval
    return (
        one.entry.name,
        one.metric,
        one.machine or "–",
        words.change(one.change),
        f"{words.change(low)} to {words.change(high)}",
        f"{words.value(one.level_before, one.metric)} → {words.value(one.level_after, one.metric)}",
        "this session" if one.is_new else f"{one.first.session}, {words.moment(one.first.start)}",
        f"{words.commit(one.before.commit)} → {words.commit(one.first.commit)}",
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], most: int = _MOST_ROWS) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    for row in rows[:most]:
        yield f"| {' | '.join(map(markdown_cell, row))} |"
    if len(rows) > most:
        yield f"\n… and {len(rows) - most} more"


def _json(report: SessionReport) -> str:
    session = dataclasses.asdict(report.session)
    document = {
        "schema_version": SCHEMA_VERSION,
        "session": session,
        "runs": [{**dataclasses.asdict(entry), **_run(run)} for entry, run in report.runs],
        "regressions": [dataclasses.asdict(one) for one in report.regressions],
        "improvements": [dataclasses.asdict(one) for one in report.improvements],
        "drifts": [dataclasses.asdict(one) for one in report.drifts],
        "changes": [
            {
                "finding": one.finding,
                "title": one.title,
                "since": one.since,
                "session": one.session,
                "explains": [{"entry": step.entry.name, "metric": step.metric} for step in one.steps],
                "changed": one.document,
            }
            for one in report.changes
        ],
        "left_out": list(report.left_out),
        "inconclusive": [_series(one) for one in report.inconclusive],
        "blind": [_series(one) for one in report.blind],
    }
    return json_text(document)


def _series(one: SeriesFacts) -> dict[str, Any]:
    fields = dataclasses.asdict(one)
    del fields["levels"]
    return fields


def _run(run: RunFacts) -> dict[str, Any]:
    fields = dataclasses.asdict(run)
    shown = {name: value for name, value in fields.items() if name not in ("session", "session_uid", "branch")}
    return {**shown, "why": "" if run.verdict in FINE else run.why}


def _junit(report: SessionReport) -> str:
    """Return a suite of the runs, and one in which every open finding is a failed test."""
    top = ElementTree.Element("testsuites")
    cases = [_case(entry, run) for entry, run in report.runs]
    _add_suite(top, report.session.name, report.session.start, cases)
    _add_suite(top, "regressions", report.session.start, [_finding(one) for one in report.changes])
    ElementTree.indent(top)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(top, encoding="unicode")}\n'


def _add_suite(top: ElementTree.Element, name: str, start: datetime | None, cases: list[ElementTree.Element]) -> None:
    count = {kind: sum(case.find(kind) is not None for case in cases) for kind in ("failure", "error", "skipped")}
    time = sum(float(case.get("time", 0)) for case in cases)
    attributes = {"name": _in_xml(name), "tests": f"{len(cases)}", "time": f"{time:.3f}"}
    attributes |= {"failures": f"{count['failure']}", "errors": f"{count['error']}", "skipped": f"{count['skipped']}"}
    if start:
        attributes["timestamp"] = f"{start:%Y-%m-%dT%H:%M:%S}"
    ElementTree.SubElement(top, "testsuite", attributes).extend(cases)


def _case(entry: SiteEntry, run: RunFacts) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname=_in_xml(entry.path), name=_in_xml(entry.name))
    case.set("time", f"{run.duration or 0:.3f}")
    if run.inconclusive:
        properties = ElementTree.SubElement(case, "properties")
        for gate in run.inconclusive:
            ElementTree.SubElement(properties, "property", name="inconclusive", value=_in_xml(gate))
    if run.verdict == "skipped":
        ElementTree.SubElement(case, "skipped", message=_in_xml(words.first_line(run.why)))
    elif run.verdict not in FINE:
        kind = "failure" if run.verdict == _FAILED else "error"
        said = words.first_line(run.why) or run.verdict
        ElementTree.SubElement(case, kind, type=run.verdict, message=_in_xml(said)).text = _in_xml(run.why)
    if run.log_path:
        ElementTree.SubElement(case, "system-out").text = _in_xml(f"log: {run.log_path}")
    return case


def _finding(one: ChangeFacts) -> ElementTree.Element:
    """Return the case of a finding, under the name of its most important change, which stays when it is found again."""
    largest = one.steps[0]
    entry, metric = _in_xml(largest.entry.name), _in_xml(largest.metric)
    case = ElementTree.Element("testcase", classname=entry, name=metric, time="0")
    properties = ElementTree.SubElement(case, "properties")
    explained = [("finding", one.finding), *(("explains", f"{step.entry.name} {step.metric}") for step in one.steps)]
    for name, value in explained:
        ElementTree.SubElement(properties, "property", name=name, value=_in_xml(value))
    failure = ElementTree.SubElement(case, "failure", type="regression", message=_in_xml(f"{one.title} {_since(one)}"))
    failure.text = _in_xml("\n".join([*map(_step_line, one.steps), *one.text]))
    return case


def _step_line(one: StepFacts) -> str:
    entry, metric, machine, change, interval, levels, since, commits = _step_cells(one)
    on = f" on {machine}" if one.machine else ""
    return f"{entry} {metric}{on}: {change} ({interval}): {levels} since {since}, {commits}"


def _in_xml(text: str) -> str:
    """Replace the characters that XML cannot hold, even escaped."""
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)
