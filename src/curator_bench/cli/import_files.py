"""Reads files of runs and prints the results, for `import` and `merge`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from curator_bench.cli import tables
from curator_bench.cli.remote_files import Stored
from curator_bench.errors import BenchError, Mistake

if TYPE_CHECKING:
    from curator_bench.importing.formats import Format
    from curator_bench.importing.found_runs import Found

_MISTAKES_SHOWN = 20


def form(path: Path, shown: str) -> Format:
    """Return the form of a file. Raises BenchError for an unknown one."""
    from curator_bench.importing.formats import format_of
    from curator_bench.repeats import combine

    try:
        with _readable(shown):
            return format_of(path, combine)
    except BenchError as error:
        raise BenchError(str(error).replace(str(path), shown)) from error


def found_in(path: Path, form: Format, shown: str) -> Iterator[Found]:
    """Yield the runs in a file or folder, which mistakes name as `shown`."""
    with _readable(shown):
        for item in form.read(path):
            within = item.place.file.removeprefix(str(path)) if path.is_dir() else ""
            yield replace(item, place=item.place._replace(file=shown + within))


def found_in_store(stored: Stored) -> Iterator[Found]:
    for name, path in stored.fetched():
        yield from found_in(path, form(path, name), name)


def counts_line(added: int, completed: int, known: int) -> str:
    return f"{tables.how_many(added, 'run')} added, {completed:,} completed, {known:,} there already"


def print_mistakes(mistakes: Sequence[Mistake]) -> None:
    for mistake in mistakes[:_MISTAKES_SHOWN]:
        tables.say(str(mistake), err=True)
    if len(mistakes) > _MISTAKES_SHOWN:
        click.echo(f"… and {len(mistakes) - _MISTAKES_SHOWN:,} more", err=True)


def raise_for_mistakes(mistakes: Sequence[Mistake]) -> None:
    """Raise BenchError if there were mistakes. They were printed before."""
    if mistakes:
        raise BenchError(f"{tables.how_many(len(mistakes), 'mistake')}; the correct lines were imported")


@contextmanager
def _readable(shown: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BenchError(f"{shown} cannot be read: {error.strerror or error}") from error
