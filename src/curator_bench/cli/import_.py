"""`curator-bench import`: takes in runs that were recorded elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from curator_bench.cli import tables
from curator_bench.cli.databases import db_option, writing
from curator_bench.errors import BenchError, Mistake

if TYPE_CHECKING:
    from curator_bench.store.imports.taking import TakenIn

_MISTAKES_SHOWN = 20


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@db_option
def command(files: tuple[Path, ...], database: str) -> None:
    """Take in runs from FILES. Taking a file in again adds nothing.

    They may be unrecorded.jsonl or results.jsonl of a session, what `curator-bench export --format jsonl` wrote, lines
    with name, metric, value, time and commit, JSON of pytest-benchmark, or a benchmark.db of coiled/benchmarks.
    """
    from curator_bench.execution.repeats import combine
    from curator_bench.store.imports.forms import form_of
    from curator_bench.store.imports.taking import Taker

    forms = []
    for file in files:
        with _readable(file):
            forms.append(form_of(file, combine))
    mistakes: list[Mistake] = []
    with writing(database) as opened:
        taker = Taker(opened)
        for file, form in zip(files, forms, strict=True):
            with _readable(file):
                taken = taker.take_in(form.read(file))
            tables.say(f"{file} ({form.name}): {_said(taken)}")
            _tell(taken.mistakes)
            mistakes += taken.mistakes
    if mistakes:
        raise BenchError(f"{tables.how_many(len(mistakes), 'mistake')}; what was right has been taken in")


def _said(taken: TakenIn) -> str:
    return f"{tables.how_many(taken.added, 'run')} added, {taken.completed:,} completed, {taken.known:,} there already"


def _tell(mistakes: Sequence[Mistake]) -> None:
    for mistake in mistakes[:_MISTAKES_SHOWN]:
        click.echo(str(mistake), err=True)
    if len(mistakes) > _MISTAKES_SHOWN:
        click.echo(f"… and {len(mistakes) - _MISTAKES_SHOWN:,} more", err=True)


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BenchError(f"{file} cannot be read: {error.strerror or error}") from error
