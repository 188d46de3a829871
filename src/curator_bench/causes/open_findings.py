"""The open findings of some entries, in words: for the end of a session and for sinks."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from curator_bench.causes import wording
from curator_bench.causes.finding_changes import changes_of
from curator_bench.causes.finding_names import what
from curator_bench.causes.judged_history import Query, judge_history
from curator_bench.values import OpenFinding
from curator_bench.verdict.step_states import State

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from curator_bench.causes.findings import RecordedFinding
    from curator_bench.causes.wording import Log
    from curator_bench.store.all_series import Group


def open_findings(connection: Connection, among: Collection[Group], repo: Path, log: Log) -> list[OpenFinding]:
    """Return the open regressions of these entries, the newest first. Only their histories are read."""
    judged = judge_history(connection, Query(repo=repo), among)
    found = [one for one in judged.findings if one.state is State.OPEN][::-1]
    changes = changes_of(connection, found)
    return [open_finding(one, wording.text(changes[one.name], log)) for one in found]


def open_finding(finding: RecordedFinding, changed: list[str]) -> OpenFinding:
    """Return a finding in the form that reports show. `changed` words what changed there."""
    one = finding.largest
    return OpenFinding(
        name=finding.name,
        title=what(finding),
        entry=one.entry.name,
        path=one.entry.path,
        metric=one.metric,
        machine=one.machine_id or "",
        change=one.step.change,
        before=one.step.before,
        after=one.step.after,
        since=finding.after.start_text,
        session=finding.after.session,
        commits=(finding.before.commit or "", finding.after.commit or ""),
        entries=tuple(dict.fromkeys(step.entry.name for step in finding.steps)),
        metrics=tuple(dict.fromkeys(step.metric for step in finding.steps)),
        changed=tuple(changed),
    )
