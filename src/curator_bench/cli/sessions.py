"""`curator-bench sessions`: lists the sessions of a database, newest last."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import TYPE_CHECKING

import click

from curator_bench.cli import tables
from curator_bench.cli.databases import db_option, here, reading
from curator_bench.cli.names import moment_of
from curator_bench.cli.parameters import scope_options
from curator_bench.files.codec import json_text

if TYPE_CHECKING:
    from curator_bench.store.past_sessions import PastSession


@click.command("sessions")
@db_option
@scope_options
@click.option("--last", type=click.IntRange(1), default=20, show_default=True, help="how many")
@click.option("--hunts", is_flag=True, help="the sessions of bisects and A/B comparisons, which are no history")
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of a table")
def command(
    database: str,
    branch: str | None,
    machine: str | None,
    since: datetime | str | None,
    last: int,
    hunts: bool,
    as_json: bool,
) -> None:
    """Print the newest sessions with their start, the verdicts of their entries, their runs, and their commit."""
    from curator_bench.store import past_sessions
    from curator_bench.store.dead_runs import gone_runs
    from curator_bench.store.scope import in_scope

    with reading(database) as opened, opened.reading() as connection:
        is_part = branch or machine or since
        among = in_scope(connection, branch, machine, moment_of(connection, since)) if is_part else None
        gone = gone_runs(connection, here())
        found = past_sessions.sessions(connection, last, hunts=hunts, gone=gone, among=among)
        apart = 0 if hunts else past_sessions.count_hunts(connection)
    if as_json:
        document = {"schema_version": 1, "sessions": [as_document(session) for session in found]}
        click.echo(json_text(document), nl=False)
        return
    of = ["OF"] if hunts else []
    heads = tables.columns(
        "SESSION", *of, "STARTED (UTC)", ">ENTRIES", "VERDICTS", ">RUNS", "COMMIT", "BRANCH", "REASON"
    )
    tables.print_table(heads, [_row(session, hunts=hunts) for session in found])
    if apart:
        tables.say(f"not listed: {tables.how_many(apart, 'session')} of bisects or A/B comparisons (--hunts)")


def as_document(session: PastSession) -> dict[str, object]:
    fields = dataclasses.asdict(session)
    del fields["id"]
    return fields


def _row(session: PastSession, *, hunts: bool) -> tuple[str, ...]:
    return (
        session.name,
        *([session.hunt or ""] if hunts else []),
        tables.time(session.start),
        f"{sum(session.verdicts.values()):,}",
        tables.counts(session.verdicts.items()),
        f"{session.runs:,}",
        tables.commit(session.commit, dirty=session.dirty),
        session.branch or "",
        session.reason or "",
    )
