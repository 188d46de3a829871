"""What changed around findings: for all that shows them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from curator_bench.causes import wording
from curator_bench.causes.recorded import facts_of
from curator_bench.causes.what_changed import Facts, WhatChanged, what_changed
from curator_bench.causes.wording import Log
from curator_bench.cli.finding_names import what
from curator_bench.provenance.packages import commit_lines
from curator_bench.report.formats import ChangeFacts
from curator_bench.verdict.hunting import State

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from curator_bench.cli.findings import RecordedFinding
    from curator_bench.cli.judged_history import JudgedHistory


def changes_of(connection: Connection, findings: Sequence[RecordedFinding]) -> dict[str, WhatChanged]:
    """Return what changed around each finding, by its name.

    The commits are those of the finding, which all that it explains have in common. All else is compared between the
    last run certainly before its most important change and the first certainly after it.
    """
    wanted = {place.run for one in findings for place in (one.before, one.after)}
    wanted |= {place.run for one in findings for place in (one.largest.last_before, one.largest.first_after)}
    facts = facts_of(connection, wanted)
    return {one.name: _changed(one, facts) for one in findings}


def _changed(finding: RecordedFinding, facts: Mapping[int, Facts]) -> WhatChanged:
    largest = finding.largest
    sides = ((largest.last_before, finding.before), (largest.first_after, finding.after))
    before, after = (
        replace(facts[own.run], commits=facts[shared.run].commits, changed=facts[shared.run].changed)
        for own, shared in sides
    )
    return what_changed(before, after)


def changes_around(connection: Connection, judged: JudgedHistory, repo: Path | None) -> list[ChangeFacts]:
    """Return what changed around each open regression, the newest first, for reports."""
    found = [one for one in judged.findings if one.state is State.OPEN][::-1]
    changes = changes_of(connection, found)
    log = commit_log(repo)
    return [
        ChangeFacts(one.name, what(one), wording.markdown(changes[one.name], log), wording.document(changes[one.name]))
        for one in found
    ]


def commit_log(repo: Path | None) -> Log:
    """Return what words the commits of a range: from this checkout, or that of the package under test."""
    return functools.partial(commit_lines, repo or Path())
