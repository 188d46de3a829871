"""`curator-bench import`: adds runs that were recorded elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from curator_bench.cli import import_files, tables
from curator_bench.cli.databases import db_option, writing
from curator_bench.cli.progress import progress
from curator_bench.cli.remote_files import Stored, find, is_store
from curator_bench.errors import Mistake

if TYPE_CHECKING:
    from curator_bench.importing.continued import Continued
    from curator_bench.importing.found_runs import Found
    from curator_bench.store.database import Database

_NAMED = 5
_COUNTED_AT_ONCE = 100


@click.command("import")
@click.argument("files", nargs=-1, required=True)
@click.option(
    "--continues", "path", metavar="PATH", help="these are earlier runs of the entries of this file: one history"
)
@click.option(
    "--from-machine", metavar="NAME", help="with --continues: only the runs of this machine, on which PATH's runs were"
)
@db_option
def command(files: tuple[str, ...], path: str | None, from_machine: str | None, database: str) -> None:
    """Add the runs in FILES to the database. Importing a file again adds nothing.

    A file may be unrecorded.jsonl or results.jsonl of a session, the output of the sink jsonl or of `curator-bench
    export --format jsonl`, lines with name, metric, value, time and commit, results of asv (also their whole folder),
    JSON of pytest-benchmark, pyperf, Google Benchmark, Bencher (BMF) or github-action-benchmark (also data.js), or a
    benchmark.db of coiled/benchmarks. It may also be a URL that fsspec knows, such as s3://bucket/history/; of such a
    folder all .jsonl files are read.

    Imported runs are a history of their own. With --continues, runs of the same names become the earlier history of
    the entries of a matrix or a test file that has been recorded here, on the machine of its newest runs.
    """
    from curator_bench.importing.importer import Importer

    if from_machine and not path:
        raise click.UsageError("--from-machine goes with --continues")
    sources = [find(file) if is_store(file) else (Path(file), import_files.form(Path(file), file)) for file in files]
    mistakes: list[Mistake] = []
    with writing(database) as opened, _told_if_interrupted():
        importer = Importer(opened)
        continued = _continued(opened, path, from_machine)
        for source in sources:
            if isinstance(source, Stored):
                what = f"{source.shown} ({tables.how_many(len(source.names), 'file')})"
                found = import_files.found_in_store(source)
            else:
                file, form = source
                what = f"{file} ({form.name})"
                found = import_files.found_in(file, form, str(file))
            with progress(what) as tell:
                taken = importer.add(_counted(continued.runs(found) if continued else found, tell))
            tables.say(f"{what}: {import_files.counts_line(taken.added, taken.completed, taken.known)}")
            import_files.print_mistakes(taken.mistakes)
            mistakes += taken.mistakes
    if continued:
        continued.refuse_unknown_machine()
    if continued and continued.without_entry:
        names = sorted(continued.without_entry)
        shown = ", ".join([*names[:_NAMED], *(["…"] if len(names) > _NAMED else [])])
        tables.say(f"{tables.how_many(len(names), 'benchmark')} without an entry in {path}, so by themselves: {shown}")
    import_files.raise_for_mistakes(mistakes)


@contextmanager
def _told_if_interrupted() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        tables.say("interrupted: the runs added so far stay; the same command adds the others", err=True)
        raise


def _counted(found: Iterable[Found], tell: Callable[[int, int | None], None]) -> Iterator[Found]:
    for number, one in enumerate(found, 1):
        if number % _COUNTED_AT_ONCE == 0:
            tell(number, None)
        yield one


def _continued(opened: Database, path: str | None, machine: str | None) -> Continued | None:
    """Return the entries of a file whose earlier runs are imported; None without --continues."""
    from curator_bench.importing.continued import Continued
    from curator_bench.options.rootdir import project_of
    from curator_bench.store.queries import newest_runs_of_file

    if path is None:
        return None
    if Path(path).is_file():  # else it may be a file that is gone, by the name that is recorded
        path = project_of([Path(path)], Path.cwd()).name_of(path)
    with opened.reading() as connection:
        return Continued(path, newest_runs_of_file(connection, path), machine)
