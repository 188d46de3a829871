"""Files of runs on their way into a database, for `import` and `merge`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from curator_bench.cli.stores import Stored
from curator_bench.cli.tables import how_many
from curator_bench.errors import BenchError, Mistake

if TYPE_CHECKING:
    from curator_bench.importing.forms import Form
    from curator_bench.importing.found import Found

_MISTAKES_SHOWN = 20


def form(path: Path, shown: str) -> Form:
    """Of which form a file is. Raises BenchError."""
    from curator_bench.execution.repeats import combine
    from curator_bench.importing.forms import form_of

    try:
        with _readable(shown):
            return form_of(path, combine)
    except BenchError as error:
        raise BenchError(str(error).replace(str(path), shown)) from error


def found_in(path: Path, form: Form, shown: str) -> Iterator[Found]:
    """What is in a file, which is known to people by another name."""
    with _readable(shown):
        for item in form.read(path):
            yield replace(item, place=item.place._replace(file=shown))


def found_in_store(stored: Stored) -> Iterator[Found]:
    for name, path in stored.fetched():
        yield from found_in(path, form(path, name), name)


def said(added: int, completed: int, known: int) -> str:
    return f"{how_many(added, 'run')} added, {completed:,} completed, {known:,} there already"


def tell(mistakes: Sequence[Mistake]) -> None:
    for mistake in mistakes[:_MISTAKES_SHOWN]:
        click.echo(str(mistake), err=True)
    if len(mistakes) > _MISTAKES_SHOWN:
        click.echo(f"… and {len(mistakes) - _MISTAKES_SHOWN:,} more", err=True)


def fail_for(mistakes: Sequence[Mistake]) -> None:
    """Raises BenchError where there were any; they have been told."""
    if mistakes:
        raise BenchError(f"{how_many(len(mistakes), 'mistake')}; what was right has been taken in")


@contextmanager
def _readable(shown: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BenchError(f"{shown} cannot be read: {error.strerror or error}") from error
