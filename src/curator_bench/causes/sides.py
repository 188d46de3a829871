"""The runs of two sides whose difference is explained: of two sets of sessions, around a moment, or around a step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from curator_bench.causes.judged_history import JudgedHistory, RecordedStep
from curator_bench.errors import BenchError
from curator_bench.store import queries
from curator_bench.store.all_series import Series
from curator_bench.store.queries import EntryKey, PastRun
from curator_bench.store.staged_runs import measured_runs
from curator_bench.verdict.comparable import Origin, difference
from curator_bench.verdict.judgement import Step

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

MOST = 30
"""The number of runs of a side: those nearest to the change."""


@dataclass(frozen=True, slots=True)
class Sides:
    """The runs of two sides of one entry on one machine, oldest first."""

    entry: EntryKey
    before: Sequence[PastRun]
    after: Sequence[PastRun]


def sides_of_step(connection: Connection, series: Series, step: RecordedStep, others: Iterable[Step]) -> Sides:
    """Return the runs at the level before a step and at the level after it, without those that may be of either.

    `others` are the steps of the same series, which end these levels.
    """
    others, around = list(others), (step.step.last_before, step.step.first_after)
    first = max((one.first_after for one in others if one.began < step.step.began), default=0)
    last = min((one.last_before for one in others if one.began > step.step.began), default=len(series.runs) - 1)
    ids = series.runs.tolist()
    before = ids[max(first, around[0] + 1 - MOST) : around[0] + 1]
    after = ids[around[1] : min(last + 1, around[1] + MOST)]
    return Sides(step.entry, *(queries.runs_of_ids(connection, side) for side in (before, after)))


def sides_of_judged(connection: Connection, judged: JudgedHistory, step: RecordedStep) -> Sides:
    """Return the sides of a step of a judged history."""
    key = step.entry, step.metric, step.machine_id
    series, trend = next(
        (series, trend)
        for series, trend in judged.trends
        if (series.entry, series.metric, series.machine_id) == key and step.step in trend.steps
    )
    return sides_of_step(connection, series, step, list(trend.steps))


def sides_of_sessions(
    connection: Connection,
    entry: EntryKey,
    names: tuple[str, str],
    sessions: tuple[Collection[int], Collection[int]],
    scope: ColumnElement[bool],
) -> Sides:
    """Return the runs of an entry in scope in two sets of sessions. A session of both counts for the later side.

    Raises BenchError if a side has no run, or none that is comparable with the other side.
    """
    both = set(sessions[0]) - set(sessions[1]), set(sessions[1])
    if not both[0]:
        raise BenchError(f"every session of {names[0]} is also one of {names[1]}: there is nothing to compare")
    found = [measured_runs(connection, entry, scope, side) for side in both]
    for name, runs in zip(names, found, strict=True):
        if not runs:
            raise BenchError(f"no run of {entry.name} in {name} measured anything")
    return _comparable(entry, names, found[0], found[1])


def sides_since(
    connection: Connection, entry: EntryKey, since: datetime, named: str, scope: ColumnElement[bool]
) -> Sides:
    """Return the last runs of an entry in scope before a moment, and the first ones since."""
    runs = measured_runs(connection, entry, scope)
    before, after = ([run for run in runs if (run.start >= since) is late] for late in (False, True))
    for side, text in ((before, "before"), (after, "since")):
        if not side:
            raise BenchError(f"no run of {entry.name} {text} {named} measured anything")
    return _comparable(entry, (f"before {named}", f"since {named}"), before, after)


def _comparable(entry: EntryKey, names: tuple[str, str], before: Sequence[PastRun], after: Sequence[PastRun]) -> Sides:
    """Keep the runs of the newest kind that both sides have."""
    kinds = {_kind(run) for run in before}
    newest = next((_kind(run) for run in reversed(after) if _kind(run) in kinds), None)
    if newest is None:
        origins = (Origin(entry.name, run.series_hash, run.machine_id) for run in (after[-1], before[-1]))
        raise BenchError(f"{names[0]} and {names[1]} are not comparable because {difference(*origins)}")
    old, new = ([run for run in side if _kind(run) == newest] for side in (before, after))
    return Sides(entry, old[-MOST:], new[:MOST])


def _kind(run: PastRun) -> tuple[str | None, str | None]:
    return run.machine_id, run.series_hash
