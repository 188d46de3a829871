"""`curator-bench accept`: closes a finding, or the open regressions of a metric, whose present level becomes normal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from curator_bench.cli import tables
from curator_bench.cli.databases import db_option, reading, writing
from curator_bench.cli.names import moment_of
from curator_bench.cli.parameters import min_effect_option, scope_options
from curator_bench.errors import BenchError

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from curator_bench.causes.judged_history import Query, RecordedDrift, RecordedStep
    from curator_bench.store.queries import EntryKey


@dataclass(frozen=True, slots=True, order=True)
class _Level:
    """A level of a metric that becomes normal: from the start of its first run up to a later one."""

    entry: EntryKey
    metric: str
    since: datetime
    until: datetime


def _said(_context: click.Context, _option: click.Parameter, why: str) -> str:
    if not why.strip():
        raise click.BadParameter("found nothing, expected a reason")
    return why


@click.command("accept")
@click.argument("named", metavar="FINDING|ENTRY")
@click.argument("metric", required=False)
@click.option("--why", required=True, callback=_said, help="reason, which is recorded")
@click.option("--better", type=click.Choice(["less", "more"]), help="as for `curator-bench regressions`")
@scope_options
@min_effect_option("changes")
@db_option
def command(
    named: str,
    metric: str | None,
    why: str,
    better: str | None,
    branch: str | None,
    machine: str | None,
    since: datetime | str | None,
    min_effect: float,
    database: str,
) -> None:
    """Accept all that FINDING explains, or the current level of METRIC of ENTRY, as normal.

    `curator-bench regressions` names the findings. This closes the regressions, and for a metric its drift, too. From
    now on, gates compare with the new level.
    """
    from curator_bench.causes.judged_history import Query
    from curator_bench.store.acceptances import Accepted, accept

    with reading(database) as opened, opened.reading() as connection:
        query = Query(metric, moment_of(connection, since), better, min_effect, branch, machine=machine)
        steps, drifts, levels = (
            _of_metric(connection, named, query) if metric else _of_finding(connection, named, query)
        )
    now, newest = datetime.now(UTC), {(one.entry, one.metric): one for one in sorted(levels)}
    accepted = [
        Accepted(one.entry.name, one.entry.path, one.metric, one.since, one.until, now, why) for one in newest.values()
    ]
    with writing(database) as opened, opened.writing() as connection:
        accept(connection, accepted)
    for step in steps:
        change = f"{tables.change(step.step.change)} since {tables.time(step.first.start)}"
        tables.say(f"accepted: {step.entry.name} {step.metric} {change}")
    for crept in drifts:
        drift = f"{tables.change(crept.drift.change)} drift since {crept.since_text}"
        tables.say(f"accepted: {crept.entry.name} {crept.metric} {drift}")
    if metric and steps:
        for line in _still_open(database, {(one.entry, one.metric) for one in steps}, replace(query, metric=None)):
            tables.say(line)


def _still_open(database: str, accepted: Collection[tuple[EntryKey, str]], query: Query) -> Iterator[str]:
    """Yield a line for each finding of these metrics that other metrics keep open."""
    from curator_bench.causes.judged_history import judge_history

    with reading(database) as opened, opened.reading() as connection:
        findings = judge_history(connection, query).findings
    for one in findings:
        left = [f"{step.entry.name} {step.metric}" for step in _open(one.steps)]
        if left and any((step.entry, step.metric) in accepted for step in one.steps):
            yield f"{one.name} stays open for {', '.join(left)}: `curator-bench accept {one.name}` closes all of it"


def _of_metric(
    connection: Connection, entry: str, query: Query
) -> tuple[Sequence[RecordedStep], Sequence[RecordedDrift], Sequence[_Level]]:
    from curator_bench.causes.judged_history import judge_history
    from curator_bench.store import queries

    entries = queries.find_entries(connection, entry)
    names = queries.metric_names(connection, entries)
    if query.metric not in names:
        raise BenchError(f"{entry} has no metric {query.metric!r}{queries.nearest(str(query.metric), names)}")
    found = judge_history(connection, query)
    steps = [one for one in _open(found.steps) if one.entry in entries]
    drifts = [one for one in found.drifts if one.entry in entries]
    levels = [_Level(one.entry, one.metric, one.first.start, one.newest.start) for one in steps]
    levels += [_Level(one.entry, one.metric, one.recent, one.newest) for one in drifts]
    if not levels:
        where = "`curator-bench regressions` lists them"
        raise BenchError(f"no regression of {query.metric} of {entry} is open; {where}")
    return steps, drifts, levels


def _of_finding(
    connection: Connection, name: str, query: Query
) -> tuple[Sequence[RecordedStep], Sequence[RecordedDrift], Sequence[_Level]]:
    from curator_bench.causes.findings import finding_named
    from curator_bench.causes.judged_history import judge_history

    found = judge_history(connection, query)
    finding = finding_named(found.findings, name)
    steps = _open(finding.steps)
    if not steps:
        raise BenchError(f"{finding.name} is not open: {finding.state or 'it is an improvement'}")
    others = [one for one in _open(found.steps) if one not in steps]
    return steps, (), [_level_of(one, steps, others) for one in steps]


def _open(steps: Iterable[RecordedStep]) -> list[RecordedStep]:
    from curator_bench.verdict.step_states import State

    return [one for one in steps if one.state is State.OPEN]


def _level_of(step: RecordedStep, steps: Sequence[RecordedStep], others: Sequence[RecordedStep]) -> _Level:
    """Return the level up to the next open change of the same metric, on whatever machine, that is not accepted."""
    metric = step.entry, step.metric
    since = max(one.first.start for one in steps if (one.entry, one.metric) == metric)
    starts = (one.first.start for one in others if (one.entry, one.metric) == metric)
    later = [start - timedelta(microseconds=1) for start in starts if start > since]
    return _Level(*metric, since, min([step.newest.start, *later]))
