"""Finds what changed around findings, for all commands and reports that show them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from curator_bench.causes import wording
from curator_bench.causes.finding_changes import changes_of
from curator_bench.causes.finding_names import what
from curator_bench.causes.wording import Log
from curator_bench.provenance.packages import commit_lines
from curator_bench.report.formats import ChangeFacts
from curator_bench.verdict.step_states import State

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from curator_bench.causes.judged_history import JudgedHistory, RecordedStep
    from curator_bench.report.site.model import StepFacts


def changes_around(
    connection: Connection, judged: JudgedHistory, repo: Path | None, step_facts: Callable[[RecordedStep], StepFacts]
) -> list[ChangeFacts]:
    """Return the open findings with what changed there, the newest first, for reports."""
    found = [one for one in judged.findings if one.state is State.OPEN][::-1]
    changes = changes_of(connection, found)
    log = commit_log(repo)
    return [
        ChangeFacts(
            finding=one.name,
            title=what(one),
            since=one.after.start,
            session=one.after.session,
            steps=tuple(map(step_facts, one.steps)),
            text=wording.text(changes[one.name], log),
            markdown=wording.markdown(changes[one.name], log),
            document=wording.document(changes[one.name]),
        )
        for one in found
    ]


def commit_log(repo: Path | None) -> Log:
    """Return what words the commits of a range: from this checkout, or that of the package under test."""
    return functools.partial(commit_lines, repo or Path())
