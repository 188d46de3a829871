"""The title and text of the issue of a finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from curator_bench.causes import commands, wording
from curator_bench.causes.finding_changes import commands_for
from curator_bench.causes.finding_names import what
from curator_bench.report.site import words
from curator_bench.sharing.comments import fitting
from curator_bench.sharing.issues import Draft, Mark
from curator_bench.sharing.places import hidden
from curator_bench.words import change, code_block, markdown_cell, printable

if TYPE_CHECKING:
    from curator_bench.causes.findings import RecordedFinding
    from curator_bench.causes.judged_history import RecordedStep
    from curator_bench.causes.what_changed import WhatChanged
    from curator_bench.causes.wording import Log

_MOST_STEPS = 20
_LONGEST_TITLE = 250
_HEADS = ("entry", "metric", "machine", "change", "95 % interval", "before → after", "since")


@dataclass(frozen=True, slots=True)
class Cause:
    """The result of looking for the cause of a finding by measuring."""

    lines: tuple[str, ...]
    is_confirmed: bool
    """The benchmark was measured again, and is worse."""
    is_explained: bool
    """The cause is known, or cannot be found by measuring: nothing is left to do."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """All that an issue says besides the finding and its cause."""

    changes: dict[str, WhatChanged]
    log: Log
    dashboard: str = ""
    """URL of the dashboard."""
    labels: tuple[str, ...] = ()
    longest: int = 65_536
    record: str = "RECORD"
    """The record as people name it."""


def draft_of(finding: RecordedFinding, cause: Cause, around: Surroundings) -> Draft:
    """Return the issue of an open finding. Secrets and markup in names do no harm."""
    series = tuple(dict.fromkeys((one.entry.path, one.entry.name, one.metric) for one in finding.steps))
    mark = Mark(finding.name, series[:_MOST_STEPS], cause.lines, is_explained=cause.is_explained)
    title = printable(hidden(f"{finding.word}: {what(finding, names_machine=False)}"))[:_LONGEST_TITLE]
    body = "\n".join(_lines(finding, cause, around))
    return Draft(title, mark, fitting(body, around.longest - len(mark.line) - 1), around.labels)


def _lines(finding: RecordedFinding, cause: Cause, around: Surroundings) -> list[str]:
    changed = around.changes[finding.name]
    after = finding.after
    since = f"since session {after.session}, {words.moment(after.start)} UTC"
    lines = [f"**{markdown_cell(what(finding))}** {markdown_cell(since)} (`{finding.name}`)", ""]
    lines += ["### Cause", "", *code_block(cause.lines), ""]
    lines += ["### Worse", "", *_table(finding.steps), ""]
    lines += ["### Changed with it", "", *(wording.markdown(changed, around.log) or ["Nothing that is recorded."]), ""]
    told = commands_for(finding, changed, around.log)
    if told and not cause.is_explained:
        lines += ["### To look further", "", *code_block(commands.worded(told)[1:]), ""]
    if around.dashboard:
        lines += [f"Dashboard: {markdown_cell(around.dashboard)}", ""]
    accept = f"curator-bench accept {finding.name} --why TEXT --db {around.record}"
    written = (
        "Written by `curator-bench watch`, which updates this issue, and closes it when the benchmark recovers. If you "
        f"close it, it stays closed. To make the new level normal: `{accept}`."
    )
    return [*lines, f"<sub>{written}</sub>"]


def _table(steps: Sequence[RecordedStep]) -> list[str]:
    lines = [f"| {' | '.join(_HEADS)} |", f"|{' --- |' * len(_HEADS)}"]
    lines += [f"| {' | '.join(map(markdown_cell, _cells(one)))} |" for one in steps[:_MOST_STEPS]]
    return [*lines, *([f"\n… and {len(steps) - _MOST_STEPS} more"] if len(steps) > _MOST_STEPS else [])]


def _cells(one: RecordedStep) -> tuple[str, ...]:
    step, (low, high) = one.step, one.step.interval
    return (
        one.entry.name,
        one.metric,
        one.machine_id or "–",
        change(step.change),
        f"{change(low)} to {change(high)}",
        f"{words.value(step.before, one.metric)} → {words.value(step.after, one.metric)}",
        f"{one.first.session}, commit {words.commit(one.first.commit)}",
    )
