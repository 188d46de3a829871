"""A finding as `regressions` prints it: what, since when, what changed there, and all it explains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from curator_bench.causes import wording
from curator_bench.causes.commands import worded
from curator_bench.causes.finding_changes import commands_for
from curator_bench.causes.finding_names import what
from curator_bench.cli import tables
from curator_bench.cli.finding_changes import commit_log

if TYPE_CHECKING:
    from curator_bench.causes.findings import RecordedFinding
    from curator_bench.causes.judged_history import RecordedStep
    from curator_bench.causes.what_changed import WhatChanged

_ROWS_SHOWN = 10
_INDENT = 4


def print_finding(finding: RecordedFinding, changed: WhatChanged, repo: Path | None, *, everything: bool) -> None:
    """Print one block. Without `everything` only the most important rows are shown."""
    tables.say(tables.printable(_head(finding)))
    for line in wording.text(changed, commit_log(repo)):
        tables.say(f"    {line}")
    if repo is not None and _lacks_commits(repo, changed):
        tables.say(f"    ({repo} is no checkout that has them)")
    for line in worded(commands_for(finding, changed, commit_log(repo))):
        tables.say(f"    {line}")
    rows = finding.steps if everything else finding.steps[:_ROWS_SHOWN]
    _print_steps(rows)
    if len(rows) < len(finding.steps):
        tables.say(f"    … and {len(finding.steps) - len(rows)} more (--all)")


def _head(finding: RecordedFinding) -> str:
    state = f" ({finding.state})" if finding.state else ""
    return f"{finding.word} {finding.name}{state} since {tables.time(finding.after.start)}: {what(finding)}"


def _lacks_commits(repo: Path, changed: WhatChanged) -> bool:
    log = commit_log(repo)
    ranges = [one for one in changed.commits if not one.of and one.before != one.after]
    return any(log(one.of, one.before, one.after) is None for one in ranges)


def _print_steps(steps: Sequence[RecordedStep]) -> None:
    machine = ["MACHINE"] if any(one.machine_id for one in steps) else []
    changes = (">CHANGE", "95 % INTERVAL", ">BEFORE", ">AFTER")
    state = ["STATE"] if any(one.state for one in steps) else []
    heads = ("ENTRY", "METRIC", *machine, *changes, *state, "SINCE (UTC)", "SESSION", "COMMIT")
    rows = [_row(one, has_machine=bool(machine), has_state=bool(state)) for one in steps]
    tables.print_table(tables.columns(*heads), rows, indent=_INDENT)


def _row(one: RecordedStep, *, has_machine: bool, has_state: bool) -> tuple[str, ...]:
    step = one.step
    return (
        one.entry.name,
        one.metric,
        *([one.machine_id or ""] if has_machine else []),
        tables.change(step.change),
        tables.interval(step.interval),
        tables.measured(one.metric, step.before),
        tables.measured(one.metric, step.after),
        *([str(one.state)] if has_state else []),
        tables.time(one.first.start),
        one.first.session,
        tables.commit(one.first.commit),
    )
