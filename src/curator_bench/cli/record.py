"""`curator-bench record`: the database that all jobs share."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from curator_bench.cli import tables

if TYPE_CHECKING:
    from curator_bench.sharing.record import Record

record_option = click.option(
    "--record",
    envvar="RECORD",
    default="record.db",
    show_default=True,
    help="where the record is that all jobs share: a path, s3://…, postgresql://…, another URL  [$RECORD]",
)


@click.group("record")
def command() -> None:
    """Get the database that all jobs share, or add runs to it.

    RECORD is a path, s3://BUCKET/KEY, a URL of another file system that fsspec knows, or postgresql://…. Jobs that add
    at the same moment lose nothing.
    """


@command.command("get")
@click.argument("record")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def get(record: str, file: Path) -> None:
    """Write all of RECORD into FILE. If there is no record yet, FILE is removed, and the exit code is 0."""
    asked = record_at(record)
    with stopped_by_signals():
        if not asked.get(file):
            tell(f"there is no record at {asked.shown} yet")


@command.command("add")
@click.argument("record")
@click.argument("databases", nargs=-1, required=True, metavar="DATABASE…")
def add(record: str, databases: Sequence[str]) -> None:
    """Add the runs of each DATABASE to RECORD, which is created if missing. Adding them again changes nothing.

    DATABASE is a file or URL as for `curator-bench merge`; files that end in .jsonl are imported.
    """
    with stopped_by_signals():
        record_at(record).add(databases)


def record_at(url: str) -> Record:
    from curator_bench.cli.merge import merge_all
    from curator_bench.sharing.record import Record

    if not url:
        raise click.UsageError("RECORD is empty: name a path or a URL")
    return Record(url, merge_all, partial(merge_all, quietly=True), tell)


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """In the block, Ctrl-C, SIGTERM and SIGHUP end the command after its clean-up."""
    from curator_bench.hunting.children import Stopped, stoppable

    try:
        with stoppable():
            yield
    except Stopped as stopped:
        tell(f"{stopped}; the same command does the rest")
        sys.exit(stopped.exit_code)


def tell(text: str) -> None:
    tables.say(text, err=True)
