"""`curator-bench export`: writes all recorded runs for other programs."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias

import click

from curator_bench.cli import tables
from curator_bench.cli.databases import db_option, reading
from curator_bench.cli.names import moment_of
from curator_bench.cli.parameters import scope_options
from curator_bench.cli.progress import progress
from curator_bench.errors import BenchError

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

    Exporter: TypeAlias = Callable[[Connection, IO[bytes], Callable[[int, int], None], ColumnElement[bool]], None]

_TABLES = ("jsonl", "csv", "parquet")
_OF_OTHERS = ("bmf", "github-action-benchmark")


@click.command("export")
@db_option
@click.option("--format", "form", type=click.Choice([*_TABLES, *_OF_OTHERS]), required=True)
@scope_options
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    callback=lambda _context, _option, out: None if out == Path("-") else out,
    help="a file (default, and `-`: standard output)",
)
def command(
    database: str,
    form: str,
    branch: str | None,
    machine: str | None,
    since: datetime | str | None,
    out: Path | None,
) -> None:
    """Write all finished runs, or those of a branch, a kind of machine or a time.

    jsonl has a line per run with all its data, which `curator-bench import` can read. csv and parquet are tables with a
    row per metric of each run. bmf is Bencher's format, with the newest run of each entry. github-action-benchmark is
    the data of this action, for `external-data-json-path`, or its script if --out ends with .js.
    """
    from curator_bench.store import exports
    from curator_bench.store.scope import in_scope

    if form == "parquet" and out is None and sys.stdout.isatty():
        raise click.UsageError("Parquet is not for a terminal: name a file with --out")
    exporter: Exporter
    if form in _OF_OTHERS:
        exporter = partial(_export_for_others, form=form, as_script=out is not None and out.suffix == ".js")
    else:
        tables_of = {"jsonl": exports.export_jsonl, "csv": exports.export_csv, "parquet": exports.export_parquet}
        exporter = tables_of[form]
    with reading(database) as opened, opened.reading() as connection:
        among = in_scope(connection, branch, machine, moment_of(connection, since))
        with _writable(out) as file, progress("exporting runs") as tell:
            exporter(connection, file, tell, among)
        _, under_way = exports.count_runs(connection, among)
    if under_way:
        click.echo(f"{tables.how_many(under_way, 'run')} still under way, left out", err=True)


def _export_for_others(
    connection: Connection,
    out: IO[bytes],
    tell: Callable[[int, int], None],
    among: ColumnElement[bool],
    *,
    form: str,
    as_script: bool,
) -> None:
    """Write runs whose numbers count in the format of another tool."""
    from curator_bench.importing import action_benchmark, bencher
    from curator_bench.store import exports
    from curator_bench.store.gate_history import MEASURED
    from curator_bench.verdict.direction import better_of

    every = (run for batch in exports.ended_runs(connection, tell, among) for run in batch)
    runs = (run for run in every if run.end.verdict in MEASURED and run.start.hunt is None)
    is_bmf = form == "bmf"
    text = bencher.text_of(runs) if is_bmf else action_benchmark.text_of(runs, better_of, as_script=as_script)
    out.write(text.encode("utf-8", "replace"))


@contextmanager
def _writable(out: Path | None) -> Iterator[IO[bytes]]:
    """Open a file or standard output. The file gets its name only when it is complete."""
    if out is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    unfinished = out.with_name(f".{out.name}.{secrets.token_hex(4)}")
    try:
        with unfinished.open("xb") as file:  # not through a link that somebody made first
            yield file
        unfinished.replace(out)
    except OSError as error:
        raise BenchError(f"{out} cannot be written: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
