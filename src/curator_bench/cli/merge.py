"""`curator-bench merge`: puts databases together."""

from __future__ import annotations

from contextlib import ExitStack

import click

from curator_bench.cli.databases import reading, writing
from curator_bench.cli.progress import progress
from curator_bench.cli.tables import how_many, say


@click.command("merge")
@click.argument("databases", nargs=-1, required=True, metavar="A B …")
@click.option("--into", "target", required=True, metavar="PATH|URL", help="the database they go into; made if missing")
def command(databases: tuple[str, ...], target: str) -> None:
    """Add to --into what it lacks of databases A, B, …: files or URLs, of this or an older curator-bench.

    They are not changed, and merging them again adds nothing.
    """
    from curator_bench.store.merge import merge

    with ExitStack() as opened:
        sources = [
            opened.enter_context(reading(database)) for database in databases
        ]  # all of them, before anything is made
        into = opened.enter_context(writing(target))
        for source in sources:
            with progress(source.shown) as tell:
                merged = merge(source, into, tell)
            say(
                f"{source.shown}: {how_many(merged.added, 'run')} added, {merged.renewed:,} completed,"
                f" {merged.known:,} there already"
            )
