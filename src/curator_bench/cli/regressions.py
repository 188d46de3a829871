"""`curator-bench regressions`: where metrics shifted, by how much, and with which commits."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from curator_bench.cli import tables
from curator_bench.cli.answering import Answering
from curator_bench.cli.databases import db_option, reading

if TYPE_CHECKING:
    from curator_bench.cli.found_shifts import Found, FoundShift

_DAYS = re.compile(r"(\d+) ?d(ays?)?")
_COMMITS_SHOWN = 20


class Moment(click.ParamType[datetime]):
    """A day, a time, or so many days ago."""

    name = "DAY"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        if days := _DAYS.fullmatch(value):
            return datetime.now(UTC) - timedelta(days=int(days[1]))
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"found {value!r}, expected a day (2026-01-23), a time, or days (30d)", param, ctx)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class Share(click.ParamType[float]):
    """A fraction, as a matrix has it: `3%` or 0.03."""

    name = "SHARE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        number, percent, _ = str(value).partition("%")
        try:
            return float(number) / (100 if percent else 1)
        except ValueError:
            self.fail(f"found {value!r}, expected a share (3% or 0.03)", param, ctx)


@click.command("regressions", cls=Answering)
@db_option
@click.option("--since", type=Moment(), help="only shifts since this day (2026-01-23), or these days (30d)")
@click.option("--metric", help="this metric only")
@click.option("--branch", help="only runs of this branch; otherwise all runs are one history")
@click.option("--better", type=click.Choice(["less", "more"]), help="of metrics that tell no direction by their name")
@click.option("--min-effect", type=Share(), default="3%", show_default=True, help="smaller shifts are left out")
@click.option("--all", "everything", is_flag=True, help="also those that were accepted")
@click.option("--repo", type=click.Path(path_type=Path), default=".", help="where commits are looked up")
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of tables")
def command(
    database: str,
    since: datetime | None,
    metric: str | None,
    branch: str | None,
    better: str | None,
    min_effect: float,
    everything: bool,
    repo: Path,
    as_json: bool,
) -> None:
    """Print where metrics shifted, in all runs that are comparable. The exit code is 1 when a regression is open,
    and 2 where that cannot be said.

    A regression is open until later runs are as good as before, or `curator-bench accept` closes it.
    """
    from curator_bench.cli.found_shifts import Wish, find_shifts
    from curator_bench.verdict.hunting import State

    with reading(database) as opened, opened.reading() as connection:
        found = find_shifts(connection, Wish(metric, since, better, min_effect, branch))
    shown = [one for one in found.shifts if everything or one.state is not State.ACCEPTED]
    if as_json:
        click.echo(tables.as_json([_document(one) for one in shown]))
    else:
        _print(found, shown, repo)
    if any(one.state is State.OPEN for one in shown):
        sys.exit(1)


def _document(one: FoundShift) -> dict[str, Any]:
    since = {"session": one.first.session, "commit": one.first.commit, "time": one.first.start.isoformat()}
    return {
        "entry": one.entry.name,
        "metric": one.metric,
        "kind": str(one.shift.outcome),
        "change": one.shift.change,
        "interval": list(one.shift.interval),
        "since": since,
    }


def _print(found: Found, shown: Sequence[FoundShift], repo: Path) -> None:
    looked_at = f"{tables.how_many(found.series, 'series', 'series')} looked at"
    if not shown:
        tables.say(f"No shifts; {looked_at}.")
    else:
        heads = tables.columns(
            "SINCE (UTC)",
            "ENTRY",
            "METRIC",
            ">CHANGE",
            "95 % INTERVAL",
            ">BEFORE",
            ">AFTER",
            "STATE",
            "SESSION",
            "COMMIT",
        )
        tables.print_table(heads, [_row(one) for one in shown])
        for line in _ranges(shown, repo):
            tables.say(line)
        tables.say(f"\n{tables.how_many(len(shown), 'shift')}; {looked_at}.")
    if found.without_direction:
        names = ", ".join(sorted(found.without_direction)[:5])
        more = ", …" if len(found.without_direction) > 5 else ""
        tables.say(f"Not judged, as no name or `better` says which direction is good: {names}{more}")


def _row(one: FoundShift) -> tuple[str, ...]:
    low, high = one.shift.interval
    return (
        tables.time(one.first.start),
        one.entry.name,
        one.metric,
        tables.change(one.shift.change),
        f"{tables.change(low)} to {tables.change(high)}",
        tables.number(one.shift.before),
        tables.number(one.shift.after),
        str(one.state),
        one.first.session,
        tables.commit(one.first.commit),
    )


def _ranges(shown: Sequence[FoundShift], repo: Path) -> Iterator[str]:
    """What was committed between the last run before a shift and the first since; each range once."""
    from curator_bench.measure.git import log_between
    from curator_bench.verdict.hunting import State

    seen = set()
    for one in shown:
        ranges = [("", one.before.commit or "", one.first.commit or ""), *one.subjects]
        for subject, before, since in ranges:
            if one.state is not State.OPEN or not before or before == since or (subject, before, since) in seen:
                continue
            seen.add((subject, before, since))
            of = f" of {subject}" if subject else ""
            yield f"\n{one.entry.name} {one.metric}: {before[:12]}..{since[:12]}{of}"
            lines = log_between(repo, before, since) or []
            yield from (f"    {tables.printable(line)}" for line in lines[:_COMMITS_SHOWN])
            if len(lines) > _COMMITS_SHOWN:
                yield f"    … and {len(lines) - _COMMITS_SHOWN} more"
