"""`curator-bench accept`: closes the open regressions of a metric, and takes its level since then as normal."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from curator_bench.cli import tables
from curator_bench.cli.databases import db_option, reading, writing
from curator_bench.cli.parameters import min_effect_option
from curator_bench.errors import BenchError


def _said(_context: click.Context, _option: click.Parameter, why: str) -> str:
    if not why.strip():
        raise click.BadParameter("found nothing, expected a reason")
    return why


@click.command("accept")
@click.argument("entry")
@click.argument("metric")
@click.option("--why", required=True, callback=_said, help="reason, which is recorded")
@click.option("--better", type=click.Choice(["less", "more"]), help="as for `curator-bench regressions`")
@click.option("--branch", help="as for `curator-bench regressions`")
@min_effect_option("changes")
@db_option
def command(
    entry: str, metric: str, why: str, better: str | None, branch: str | None, min_effect: float, database: str
) -> None:
    """Accept the current level of METRIC of ENTRY as normal.

    This closes its regressions and its drift. From now on, gates compare with this level.
    """
    from curator_bench.cli.judged_history import Query, judge_history
    from curator_bench.store import queries
    from curator_bench.store.acceptances import Accepted, accept
    from curator_bench.verdict.hunting import State

    with reading(database) as opened, opened.reading() as connection:
        entries = queries.find_entries(connection, entry)
        names = queries.metric_names(connection, entries)
        if metric not in names:
            raise BenchError(f"{entry} has no metric {metric!r}{queries.nearest(metric, names)}")
        found = judge_history(connection, Query(metric, None, better, min_effect, branch))
    steps = [one for one in found.steps if one.entry in entries and one.state is State.OPEN]
    drifts = [one for one in found.drifts if one.entry in entries]
    levels = [(one.entry, one.first.start, one.newest.start) for one in steps]
    levels += [(one.entry, one.recent, one.newest) for one in drifts]
    if not levels:
        raise BenchError(f"no regression of {metric} of {entry} is open; `curator-bench regressions` lists them")
    now, accepted = datetime.now(UTC), {}
    for of, since, until in sorted(levels, key=lambda level: level[1:]):
        accepted[of] = Accepted(of.name, of.path, metric, since, until, now, why)
    with writing(database) as opened, opened.writing() as connection:
        accept(connection, list(accepted.values()))
    for one in steps:
        step = f"{tables.change(one.step.change)} since {tables.time(one.first.start)}"
        tables.say(f"accepted: {one.entry.name} {metric} {step}")
    for crept in drifts:
        drift = f"{tables.change(crept.drift.change)} drift since {crept.since_text}"
        tables.say(f"accepted: {crept.entry.name} {metric} {drift}")
