"""`curator-bench sessions`: lists the sessions of a database, newest last."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from curator_bench.cli import tables
from curator_bench.cli.databases import db_option, reading
from curator_bench.files.codec import json_text

if TYPE_CHECKING:
    from curator_bench.store.queries import PastSession


@click.command("sessions")
@db_option
@click.option("--last", type=click.IntRange(1), default=20, show_default=True, help="how many")
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of a table")
def command(database: str, last: int, as_json: bool) -> None:
    """Print the newest sessions with their start, the verdicts of their runs, and their commit."""
    from curator_bench.store import queries

    with reading(database) as opened, opened.reading() as connection:
        found = queries.sessions(connection, last)
    if as_json:
        document = {"schema_version": 1, "sessions": [as_document(session) for session in found]}
        click.echo(json_text(document), nl=False)
        return
    heads = tables.columns("SESSION", "STARTED (UTC)", ">RUNS", "VERDICTS", "COMMIT", "BRANCH", "REASON")
    tables.print_table(heads, [_row(session) for session in found])


def as_document(session: PastSession) -> dict[str, object]:
    fields = dataclasses.asdict(session)
    del fields["id"]
    return fields


def _row(session: PastSession) -> tuple[str, ...]:
    return (
        session.name,
        tables.time(session.start),
        f"{sum(session.verdicts.values()):,}",
        tables.counts(session.verdicts.items()),
        tables.commit(session.commit, dirty=session.dirty),
        session.branch or "",
        session.reason or "",
    )
