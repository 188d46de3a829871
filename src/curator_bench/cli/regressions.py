"""`curator-bench regressions`: where metrics shifted, by how much, and with which commits."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from curator_bench.cli import tables
from curator_bench.cli.databases import db_option, reading
from curator_bench.cli.exit_codes import QuestionCommand
from curator_bench.cli.parameters import Moment, min_effect_option

if TYPE_CHECKING:
    from curator_bench.cli.judged_history import Found, FoundShift

_COMMITS_SHOWN = 20
_NAMED = 5


@click.command("regressions", cls=QuestionCommand)
@db_option
@click.option("--since", type=Moment(), help="only shifts since this day (2026-01-23), or these days (30d)")
@click.option("--metric", help="this metric only")
@click.option("--branch", help="only runs of this branch; otherwise all runs are one history")
@click.option("--better", type=click.Choice(["less", "more"]), help="of metrics that tell no direction by their name")
@min_effect_option("shifts")
@click.option("--all", "everything", is_flag=True, help="also those that were accepted")
@click.option("--repo", type=click.Path(path_type=Path), help="where commits are looked up; otherwise here")
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of tables")
def command(
    database: str,
    since: datetime | None,
    metric: str | None,
    branch: str | None,
    better: str | None,
    min_effect: float,
    everything: bool,
    repo: Path | None,
    as_json: bool,
) -> None:
    """Print where metrics shifted, in all runs that are comparable. The exit code is 1 when a regression is open,
    and 2 where that cannot be said.

    A regression is open until later runs are as good as before, or `curator-bench accept` closes it.
    """
    from curator_bench.cli.judged_history import Wish, find_shifts
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
        "kind": str(one.shift.word),
        "change": one.shift.change,
        "interval": list(one.shift.interval),
        "since": since,
    }


def _print(found: Found, shown: Sequence[FoundShift], repo: Path | None) -> None:
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
    if found.ended:
        ended = [f"{one.entry.name} {one.metric} ({tables.how_many(one.runs_without, 'run')})" for one in found.ended]
        tables.say(f"Not comparable, as the newest runs measured no number: {_first_of(ended)}")
    if found.without_direction:
        names = sorted(found.without_direction)
        tables.say(f"Not judged, as no name or `better` says which direction is good: {_first_of(names)}")


def _first_of(names: Sequence[str]) -> str:
    return ", ".join([*names[:_NAMED], *(["…"] if len(names) > _NAMED else [])])


def _row(one: FoundShift) -> tuple[str, ...]:
    return (
        tables.time(one.first.start),
        one.entry.name,
        one.metric,
        tables.change(one.shift.change),
        tables.interval(one.shift.interval),
        tables.number(one.shift.before),
        tables.number(one.shift.after),
        str(one.state),
        one.first.session,
        tables.commit(one.first.commit),
    )


def _ranges(shown: Sequence[FoundShift], repo: Path | None) -> Iterator[str]:
    """What was committed between the last run before a shift and the first since; each range once."""
    from curator_bench.provenance.git import log_between
    from curator_bench.verdict.hunting import State

    seen = set()
    for one in shown:
        ranges = [("", one.before.commit or "", one.first.commit or ""), *one.subjects]
        for subject, before, since in ranges:
            if one.state is not State.OPEN or not before or before == since or (subject, before, since) in seen:
                continue
            seen.add((subject, before, since))
            of = f" of {subject}" if subject else ""
            what = f"{one.entry.name} {one.metric}: {before[:12]}..{since[:12]}{of}"
            lines = log_between(repo or Path(), before, since)
            lacks = f" ({repo} is no checkout that has them)" if repo and lines is None else ""
            yield f"\n{tables.printable(what)}{lacks}"
            yield from (f"    {tables.printable(line)}" for line in (lines or [])[:_COMMITS_SHOWN])
            if lines and len(lines) > _COMMITS_SHOWN:
                yield f"    … and {len(lines) - _COMMITS_SHOWN} more"
