"""`curator-bench accept`: closes the open regressions of a metric; the level since then is the new one."""

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
@click.option("--why", required=True, callback=_said, help="kept with it in the database")
@click.option("--better", type=click.Choice(["less", "more"]), help="as for `curator-bench regressions`")
@click.option("--branch", help="as for `curator-bench regressions`")
@min_effect_option("shifts")
@db_option
def command(
    entry: str, metric: str, why: str, better: str | None, branch: str | None, min_effect: float, database: str
) -> None:
    """Accept what METRIC of ENTRY is now: its regressions are closed, and gates hold it against this level."""
    from curator_bench.cli.judged_history import Wish, find_shifts
    from curator_bench.store import queries
    from curator_bench.store.acceptances import Accepted, accept
    from curator_bench.verdict.hunting import State

    with reading(database) as opened, opened.reading() as connection:
        entries = queries.find_entries(connection, entry)
        names = queries.metric_names(connection, entries)
        if metric not in names:
            raise BenchError(f"{entry} has no metric {metric!r}{queries.nearest(metric, names)}")
        found = find_shifts(connection, Wish(metric, None, better, min_effect, branch)).shifts
    open_ones = [one for one in found if one.entry in entries and one.state is State.OPEN]
    if not open_ones:
        raise BenchError(f"no regression of {metric} of {entry} is open; `curator-bench regressions` lists them")
    now = datetime.now(UTC)
    accepted = {
        one.entry: Accepted(one.entry.name, one.entry.path, metric, one.first.start, one.newest.start, now, why)
        for one in open_ones
    }
    with writing(database) as opened, opened.writing() as connection:
        accept(connection, list(accepted.values()))
    for one in open_ones:
        change, since = tables.change(one.shift.change), tables.time(one.first.start)
        tables.say(f"accepted: {one.entry.name} {metric} {change} since {since}")
