"""`curator-bench import`: adds runs that were recorded elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from curator_bench.cli import import_files, tables
from curator_bench.cli.databases import db_option, writing
from curator_bench.cli.remote_files import Stored, find, is_store
from curator_bench.errors import Mistake


@click.command("import")
@click.argument("files", nargs=-1, required=True)
@db_option
def command(files: tuple[str, ...], database: str) -> None:
    """Add the runs in FILES to the database. Importing a file again adds nothing.

    A file may be unrecorded.jsonl or results.jsonl of a session, the output of the sink jsonl or of `curator-bench
    export --format jsonl`, lines with name, metric, value, time and commit, results of asv (also their whole folder),
    JSON of pytest-benchmark, pyperf, Google Benchmark, Bencher (BMF) or github-action-benchmark (also data.js), or a
    benchmark.db of coiled/benchmarks. It may also be a URL that fsspec knows, such as s3://bucket/history/; of such a
    folder all .jsonl files are read.
    """
    from curator_bench.importing.importer import Importer

    sources = [find(file) if is_store(file) else (Path(file), import_files.form(Path(file), file)) for file in files]
    mistakes: list[Mistake] = []
    with writing(database) as opened:
        importer = Importer(opened)
        for source in sources:
            if isinstance(source, Stored):
                what = f"{source.shown} ({tables.how_many(len(source.names), 'file')})"
                found = import_files.found_in_store(source)
            else:
                path, form = source
                what = f"{path} ({form.name})"
                found = import_files.found_in(path, form, str(path))
            taken = importer.add(found)
            tables.say(f"{what}: {import_files.counts_line(taken.added, taken.completed, taken.known)}")
            import_files.print_mistakes(taken.mistakes)
            mistakes += taken.mistakes
    import_files.raise_for_mistakes(mistakes)
