"""Tells what changed around findings: the commits of all their steps, and all else around the most important one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from curator_bench.causes.recorded import facts_of
from curator_bench.causes.what_changed import Facts, WhatChanged, what_changed

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from curator_bench.causes.findings import RecordedFinding


def changes_of(connection: Connection, findings: Sequence[RecordedFinding]) -> dict[str, WhatChanged]:
    """Return what changed around each finding, by its name.

    The commits are those of the finding, which are common to all its steps. Other facts are compared around its most
    important change: between the last run certainly before it and the first certainly after it.
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
