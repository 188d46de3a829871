"""`curator-bench export`: writes all recorded runs for other programs."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

import click

from curator_bench.cli import tables
from curator_bench.cli.databases import db_option, reading
from curator_bench.cli.names import moment_of
from curator_bench.cli.parameters import scope_options
from curator_bench.cli.progress import progress
from curator_bench.errors import BenchError


@click.command("export")
@db_option
@click.option("--format", "form", type=click.Choice(["jsonl", "csv", "parquet"]), required=True)
@scope_options
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="a file (default: standard output)")
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
    row per metric of each run.
    """
    from curator_bench.store import exports
    from curator_bench.store.scope import in_scope

    if form == "parquet" and out is None and sys.stdout.isatty():
        raise click.UsageError("Parquet is not for a terminal: name a file with --out")
    exporter = {"jsonl": exports.export_jsonl, "csv": exports.export_csv, "parquet": exports.export_parquet}[form]
    with reading(database) as opened, opened.reading() as connection:
        among = in_scope(connection, branch, machine, moment_of(connection, since))
        with _writable(out) as file, progress("exporting runs") as tell:
            exporter(connection, file, tell, among)
        _, under_way = exports.count_runs(connection, among)
    if under_way:
        click.echo(f"{tables.how_many(under_way, 'run')} still under way, left out", err=True)


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
