"""Regressions, improvements and drift as JSON: one object for each change, with the name of its finding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curator_bench.causes import commands, wording
from curator_bench.causes.finding_changes import commands_for
from curator_bench.cli.finding_changes import commit_log
from curator_bench.provenance.packages import commits_of_package

if TYPE_CHECKING:
    from curator_bench.causes.findings import RecordedFinding
    from curator_bench.causes.judged_history import RecordedDrift, RecordedStep
    from curator_bench.causes.what_changed import CommitRange, WhatChanged
    from curator_bench.store.all_series import RunPlace
    from curator_bench.verdict.judgement import Drift, Step


def step_documents(
    steps: Sequence[RecordedStep],
    findings: Sequence[RecordedFinding],
    changes: Mapping[str, WhatChanged],
    repo: Path | None,
) -> Iterator[dict[str, Any]]:
    """Yield an object for each step, in their order. `changes` is what changed, by the name of the finding."""
    of_steps = {step: finding for finding in findings for step in finding.steps}
    shared: dict[str, dict[str, Any]] = {}
    for step in steps:
        finding = of_steps[step]
        if finding.name not in shared:
            shared[finding.name] = _of_finding(finding, changes[finding.name], repo)
        yield {**_step_document(step), **shared[finding.name]}


def _step_document(one: RecordedStep) -> dict[str, Any]:
    step = one.step
    return {
        **_change_document(one, step, str(step.word), state=one.state and str(one.state), required=one.is_required),
        "since": _place(one.first),
        "last_before": _place(one.last_before),
        "first_after": _place(one.first_after),
    }


def _of_finding(finding: RecordedFinding, changed: WhatChanged, repo: Path | None) -> dict[str, Any]:
    ranges = [one for one in changed.commits if one.before != one.after]
    return {
        "finding": finding.name,
        "commits": next((_range(one, repo) for one in ranges if not one.of), None),
        "subjects": [{"package": one.of, **_range(one, repo)} for one in ranges if one.of],
        "changed": wording.document(changed),
        "commands": commands.document(commands_for(finding, changed, commit_log(repo))),
    }


def _range(one: CommitRange, repo: Path | None) -> dict[str, Any]:
    commits = commits_of_package(repo or Path(), one.of, one.before, one.after)
    log = None if commits is None else [asdict(commit) for commit in commits]
    return {"before": one.before, "after": one.after, "log": log}


def _place(run: RunPlace) -> dict[str, Any]:
    return {"session": run.session, "commit": run.commit, "time": run.start_text}


def drift_document(one: RecordedDrift) -> dict[str, Any]:
    return {
        **_change_document(one, one.drift, "drift", state="open"),
        "since": {"mark": one.since_text, "time": one.since.isoformat()},
    }


def _change_document(one: RecordedStep | RecordedDrift, change: Step | Drift, kind: str, **more: Any) -> dict[str, Any]:
    return {
        "entry": one.entry.name,
        "path": one.entry.path,
        "metric": one.metric,
        "machine": one.machine_id,
        "kind": kind,
        **more,
        "change": change.change,
        "interval": list(change.interval),
        "before": change.before,
        "after": change.after,
    }
