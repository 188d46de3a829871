"""`curator-bench prune`: removes old runs."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from curator_bench.cli import tables
from curator_bench.cli.databases import db_option, reading, writing
from curator_bench.cli.progress import progress
from curator_bench.errors import BenchError

if TYPE_CHECKING:
    from curator_bench.store.prune import Prunable


@click.command("prune")
@db_option
@click.option("--keep-days", type=click.FloatRange(0, 100_000), required=True, help="how many days to keep")
@click.option("--dry-run", is_flag=True, help="only print what would be removed")
@click.option("--yes", is_flag=True, help="do not ask for confirmation")
def command(database: str, keep_days: float, dry_run: bool, yes: bool) -> None:
    """Remove runs older than --keep-days, and sessions without runs. Runs in progress stay."""
    from curator_bench.store import prune

    before = datetime.now(UTC) - timedelta(days=keep_days)
    with reading(database) as opened:
        found = prune.prunable(opened, before)
    if dry_run or not found.runs:
        tables.say(
            f"{_said(found, before)} would be removed" if found.runs else f"nothing is older than {_day(before)}"
        )
        return
    if not (yes or _agrees(found, before)):
        return
    with writing(database) as opened:
        with progress("removing runs") as tell:
            pruned = prune.prune(opened, before, tell)
        removed = f"{tables.how_many(pruned.runs, 'run')} and {tables.how_many(pruned.sessions, 'session')}"
        tables.say(f"{removed} removed from {opened.shown}")
        why_not = prune.compact(opened)
    if why_not:
        click.echo(f"the file keeps its size: {why_not}; prune again later to make it smaller", err=True)


def _agrees(found: Prunable, before: datetime) -> bool:
    if not sys.stdin.isatty():
        raise BenchError(f"{_said(found, before)} would be removed: there is no terminal to ask on, so add --yes")
    return click.confirm(f"Remove {_said(found, before)}?")


def _said(found: Prunable, before: datetime) -> str:
    runs, entries = tables.how_many(found.runs, "run"), tables.how_many(found.entries, "entry", "entries")
    hunted = f" ({found.hunted:,} of bisects or A/B comparisons)" if found.hunted else ""
    return f"{runs}{hunted} of {entries} from {_day(found.oldest or before)} to {_day(before)}"


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"
