"""`curator-bench merge`: combines databases, and files of the jsonl sink, into one database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from curator_bench.cli import import_files
from curator_bench.cli.databases import reading, writing
from curator_bench.cli.progress import progress
from curator_bench.cli.remote_files import Stored, find, is_store
from curator_bench.cli.tables import say
from curator_bench.errors import BenchError, Mistake

if TYPE_CHECKING:
    from curator_bench.importing.found_runs import Found
    from curator_bench.store.database import Database
    from curator_bench.store.merge import Merged

Merging: TypeAlias = "Callable[[Database, list[Mistake]], Merged]"
"""A function that merges into a database, and adds mistakes in files to the list."""


@click.command("merge")
@click.argument("databases", nargs=-1, required=True, metavar="A B …")
@click.option("--into", "target", required=True, metavar="PATH|URL", help="the target database; created if missing")
def command(databases: tuple[str, ...], target: str) -> None:
    """Add the runs of databases A, B, … to the database --into. Runs that it already has are skipped.

    Sources are files or URLs, also of older versions. A source may also be a file that ends in .jsonl, as for `import`,
    or a store: s3://bucket/history/ for all .jsonl files in that folder, or s3://bucket/record.db. Sources are not
    changed, and merging them again adds nothing.
    """
    merge_all(databases, target)


def merge_all(databases: Sequence[str], target: str, *, quietly: bool = False) -> None:
    """Add the runs of databases and of files of runs to a database, and say of each how many, unless `quietly`."""
    mistakes: list[Mistake] = []
    with ExitStack() as opened:
        sources = [_open(named, opened) for named in databases]  # open all of them before anything is written
        into = opened.enter_context(writing(target))
        for shown, merge in sources:
            merged = merge(into, mistakes)
            if not quietly:
                say(f"{shown}: {import_files.counts_line(merged.added, merged.renewed, merged.known)}")
    import_files.print_mistakes(mistakes)
    import_files.raise_for_mistakes(mistakes)


def _open(named: str, opened: ExitStack) -> tuple[str, Merging]:
    """Return a source's name for the user, and the function that merges it. Raises BenchError if it cannot be read."""
    if is_store(named):
        stored = find(named)
        if stored.is_lines:
            return stored.shown, partial(_of_runs, import_files.found_in_store(stored))
        return stored.shown, partial(_of_stored_database, stored)
    if named.endswith(".jsonl"):
        form = import_files.form(Path(named), named)
        return named, partial(_of_runs, import_files.found_in(Path(named), form, named))
    database = opened.enter_context(reading(named))
    return database.shown, partial(_of_database, database)


def _of_database(source: Database, into: Database, mistakes: list[Mistake]) -> Merged:
    from curator_bench.store.damage import damage_in
    from curator_bench.store.merge import merge

    if damage := damage_in(source):  # or it would spread
        raise BenchError(damage)
    with progress(source.shown) as tell:
        return merge(source, into, tell)


def _of_stored_database(stored: Stored, into: Database, mistakes: list[Mistake]) -> Merged:
    from curator_bench.store.merge import Merged

    total = Merged()
    for _, path in stored.fetched():
        with reading(str(path)) as source:
            total += _of_database(source, into, mistakes)
    return total


def _of_runs(found: Iterator[Found], into: Database, mistakes: list[Mistake]) -> Merged:
    from curator_bench.importing.importer import Importer
    from curator_bench.store.merge import Merged

    taken = Importer(into).add(found)
    mistakes += taken.mistakes
    return Merged(taken.added, taken.completed, taken.known)
