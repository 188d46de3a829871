"""Tells what changed around findings: the commits of all their steps, and all else around the most important one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from curator_bench.causes.commands import Command, Question, better_by, commands
from curator_bench.causes.recorded import facts_of
from curator_bench.causes.what_changed import Facts, WhatChanged, what_changed
from curator_bench.verdict.step_states import State

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from curator_bench.causes.findings import RecordedFinding
    from curator_bench.causes.wording import Log


def changes_of(connection: Connection, findings: Sequence[RecordedFinding]) -> dict[str, WhatChanged]:
    """Return what changed around each finding, by its name.

    The commits are those of the finding, which are common to all its steps. Other facts are compared around its most
    important change: between the last run certainly before it and the first certainly after it.
    """
    wanted = {place.run for one in findings for place in (one.before, one.after)}
    wanted |= {place.run for one in findings for place in (one.largest.last_before, one.largest.first_after)}
    facts = facts_of(connection, wanted)
    return {one.name: _changed(one, facts) for one in findings}


def question_of(finding: RecordedFinding) -> Question | None:
    """Return what commands would look into: the most important change of an open regression."""
    one = finding.largest
    if finding.state is not State.OPEN:
        return None
    sessions = one.last_before.session, one.first_after.session
    better = better_by(one.step.change, is_worse=True)
    return Question(one.entry.name, one.entry.path, one.metric, sessions, better)


def commands_for(finding: RecordedFinding, changed: WhatChanged, log: Log) -> list[Command]:
    """Return the commands that would tell the cause of a finding."""
    asked = question_of(finding)
    return [] if asked is None else list(commands(changed, asked, log))


def _changed(finding: RecordedFinding, facts: Mapping[int, Facts]) -> WhatChanged:
    largest = finding.largest
    sides = ((largest.last_before, finding.before), (largest.first_after, finding.after))
    before, after = (
        replace(facts[own.run], commits=facts[shared.run].commits, changed=facts[shared.run].changed)
        for own, shared in sides
    )
    return what_changed(before, after)
