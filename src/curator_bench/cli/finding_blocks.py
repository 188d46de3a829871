"""A finding as `regressions` prints it: what, since when, the commits it may come from, and all it explains."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from curator_bench.cli import tables
from curator_bench.provenance.git import Commit, commits_between

if TYPE_CHECKING:
    from curator_bench.cli.findings import RecordedFinding
    from curator_bench.cli.judged_history import RecordedStep

_COMMITS_SHOWN = 20
_ROWS_SHOWN = 10
_INDENT = 4
_COMMIT = re.compile("[0-9a-f]{7,64}")


@dataclass(frozen=True, slots=True)
class CommitRange:
    """The commits between the last run before a finding and the first after it, of the repository or a subject."""

    subject: str | None
    """The package; None for the repository itself."""
    before: str
    after: str
    """A version where the commit of a subject is unknown."""

    def commits(self, repo: Path | None) -> list[Commit] | None:
        """Return the commits, newest first; None if the checkout lacks them."""
        is_known = all(map(_COMMIT.fullmatch, (self.before, self.after)))
        return commits_between(repo or Path(), self.before, self.after) if is_known else None


def commit_ranges(finding: RecordedFinding) -> list[CommitRange]:
    """Return a range for the repository and for each subject that changed."""
    before, after = finding.before.commit, finding.after.commit
    own = [CommitRange(None, before, after)] if before and after and before != after else []
    return [*own, *(CommitRange(*changed) for changed in finding.subjects)]


def print_finding(finding: RecordedFinding, repo: Path | None, *, everything: bool) -> None:
    """Print one block. Without `everything` only the most important rows are shown."""
    tables.say(tables.printable(_head(finding)))
    for one in commit_ranges(finding):
        _print_commits(one, repo)
    rows = finding.steps if everything else finding.steps[:_ROWS_SHOWN]
    _print_steps(rows)
    if len(rows) < len(finding.steps):
        tables.say(f"    … and {len(finding.steps) - len(rows)} more (--all)")


def _head(finding: RecordedFinding) -> str:
    state = f" ({finding.state})" if finding.state else ""
    return f"{finding.word} {finding.name}{state} since {tables.time(finding.after.start)}: {what(finding)}"


def what(finding: RecordedFinding) -> str:
    """Return the most important change of a finding, and how many others it explains."""
    one = finding.largest
    others = len(finding.steps) - 1
    more = f", and {tables.how_many(others, 'more change')}" if others else ""
    return f"{series_name(one.entry.name, one.metric, one.machine_id)} {tables.change(one.step.change)}{more}"


def series_name(entry: str, metric: str, machine: str | None) -> str:
    return f"{entry} {metric}{f' on {machine}' if machine else ''}"


def _print_commits(one: CommitRange, repo: Path | None) -> None:
    commits = one.commits(repo)
    lacks = f" ({repo} is no checkout that has them)" if repo and commits is None else ""
    name, before, after = map(tables.printable, (one.subject or "commits", one.before[:12], one.after[:12]))
    tables.say(f"    {name} {before}..{after}{lacks}")
    for commit in (commits or [])[:_COMMITS_SHOWN]:
        line = f"{tables.commit(commit.sha)} {commit.date} {commit.author}: {commit.subject}"
        tables.say(f"      {tables.printable(line)}")
    if commits and len(commits) > _COMMITS_SHOWN:
        tables.say(f"      … and {len(commits) - _COMMITS_SHOWN} more")


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
        tables.number(step.before),
        tables.number(step.after),
        *([str(one.state)] if has_state else []),
        tables.time(one.first.start),
        one.first.session,
        tables.commit(one.first.commit),
    )
