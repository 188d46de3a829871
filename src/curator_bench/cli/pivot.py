"""`curator-bench pivot`: prints a metric of a session as a table of two or more axes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from curator_bench.cli import tables
from curator_bench.cli.databases import db_option, reading
from curator_bench.errors import BenchError
from curator_bench.report import pivot as pivots
from curator_bench.report.session_runs import broken_below, runs_of

_OF_A_SESSION = ("session.json", "summary.json", ".session-uid")


@click.command("pivot")
@click.argument("session")
@click.option("--rows", required=True, help="axes of the rows (model,context), or entry, verdict, host")
@click.option("--columns", default="", help="axes of the columns")
@click.option("--metric", "metrics", required=True, multiple=True, help="a metric, or a part of its name (repeatable)")
@click.option("--summary", type=click.Choice(list(pivots.SUMMARIES)), default="median", show_default=True)
@click.option("--format", "form", type=click.Choice(["text", "csv", "markdown"]), default="text", show_default=True)
@click.option("--results", type=click.Path(path_type=Path), default=Path("results"), help="folder of sessions")
@db_option
def command(
    session: str,
    rows: str,
    columns: str,
    metrics: tuple[str, ...],
    summary: str,
    form: str,
    results: Path,
    database: str,
) -> None:
    """Print a metric of SESSION (a name or a folder) as a table over its axes.

    The session is looked for in --results, then in the folder that the database names.
    """
    folder = find_session(session, results, database)
    runs = runs_of(folder)
    for why in broken_below(folder):
        click.echo(f"warning: {why}; its entry is read from summary.json instead", err=True)
    for number, metric in enumerate(metrics):
        table = pivots.pivot(runs, metric=metric, rows=_names(rows), columns=_names(columns), summary=summary)
        if number:
            tables.say("")
        _print(table, form, is_one_of_several=len(metrics) > 1)


def _names(said: str) -> list[str]:
    return [name.strip() for name in said.split(",") if name.strip()]


def _print(table: pivots.Pivot, form: str, *, is_one_of_several: bool) -> None:
    if form == "csv":
        tables.say(table.as_csv())
    elif form == "markdown":
        notes = f"\n\n{'; '.join(table.notes())}" if is_one_of_several else ""
        tables.say(f"{table.as_markdown()}{notes}")
    else:
        heads = [*(tables.Column(axis) for axis in table.rows)]
        heads += [tables.Column(title, right=True) for title in table.heads()[len(table.rows) :]]
        tables.print_table(heads, table.lines(tables.number))
        for note in table.notes():
            tables.say(note)


def find_session(said: str, results: Path, database: str) -> Path:
    """Return the folder of a session. Raises BenchError if there is none."""
    for folder in (Path(said), results / said):
        if any((folder / name).exists() for name in _OF_A_SESSION):
            return folder
    recorded = _recorded_folder(said, database)
    if recorded is not None and recorded.is_dir():
        return recorded
    where = f"; the database knows it, but {recorded} is gone" if recorded else ""
    raise BenchError(f"no session {said!r} in {results}{where}; --results names the folder of sessions")


def _recorded_folder(session: str, database: str) -> Path | None:
    from curator_bench.cli.names import past_sessions

    with suppress(BenchError), reading(database) as opened, opened.reading() as connection:
        chosen = past_sessions(connection, session)[-1]
        return Path(chosen.results_directory, chosen.name) if chosen.results_directory else None
    return None
