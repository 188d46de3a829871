"""What runs are measured with is stored once, goes wherever the runs go, and is forgotten with them."""

from __future__ import annotations

import dataclasses
import io
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from curator_bench.causes.recorded import facts_of
from curator_bench.importing.formats import format_of
from curator_bench.importing.importer import Importer
from curator_bench.repeats import combine
from curator_bench.store import exports
from curator_bench.store.database import Database, database_url, open_for_writing
from curator_bench.store.merge import merge
from curator_bench.store.prune import prune
from curator_bench.store.queries import EntryKey, history
from curator_bench.store.recorder import Recorder
from curator_bench.store.records import Background, DefinitionRecord
from curator_bench.store.tables import DEFINITIONS, FACTS, RUNS

if TYPE_CHECKING:
    from store.conftest import Bench

ENTRY = EntryKey("removal[dense]", "dedup/matrix.yaml")
MACHINE = {"kernel": "6.1", "cpu_model": "A"}


def background(definition: str = "d1", *, series: str = "s", code: str = "print()", numpy: str = "1.26") -> Background:
    record = DefinitionRecord(definition, series, f"hash of {hash(code)}", {"args": ["--n", "1"]}, {"work.py": code})
    return Background(record, {"packages": {"numpy": numpy}, "machine": MACHINE})


def record(bench: Bench, recorder: Recorder, day: int, measured_with: Background) -> None:
    moment = bench.moment + timedelta(days=day)
    definition = measured_with.definition
    start = bench.start(
        start=moment,
        definition_hash=definition.uid if definition else "d1",
        circumstances=measured_with.circumstances_uid,
    )
    recorder.start_run(start, measured_with)
    recorder.finish_run(start.uid, dataclasses.replace(bench.end(), end=moment))


def count(database: Database, table: sa.Table) -> int:
    with database.reading() as connection:
        return int(connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0)


def told(database: Database) -> list[tuple[object, ...]]:
    """The facts of all runs, in their order."""
    with database.reading() as connection:
        runs = list(connection.scalars(sa.select(RUNS.c.id).order_by(RUNS.c.start)))
        facts = facts_of(connection, runs)
        return [(facts[run].definition, facts[run].sources, facts[run].packages, facts[run].machine) for run in runs]


def test_what_runs_share_is_stored_once(bench: Bench) -> None:
    recorder = bench.recorder(database := bench.open())
    for day in range(5):
        record(bench, recorder, day, background())
    assert recorder.problems() == ()
    assert (count(database, DEFINITIONS), count(database, FACTS)) == (1, 4)
    record(bench, recorder, 5, background(numpy="2.0"))
    assert (count(database, DEFINITIONS), count(database, FACTS)) == (1, 6)
    assert told(database)[-1] == ({"args": "--n 1"}, {"work.py": "print()"}, {"numpy": "2.0"}, MACHINE)


def test_it_goes_along_when_databases_are_merged_exported_and_imported(bench: Bench, tmp_path: Path) -> None:
    recorder = bench.recorder(source := bench.open())
    for day in range(2):
        record(bench, recorder, day, background())
    record(bench, recorder, 2, background("d2", code="print(2)"))
    exported = io.BytesIO()
    with source.reading() as connection:
        exports.export_jsonl(connection, exported)
    assert exported.getvalue().count(b"print(2)") == 1
    file = tmp_path / "all.jsonl"
    file.write_bytes(exported.getvalue())
    with open_for_writing(database_url(str(tmp_path / "merged.db"))) as merged:
        assert (merge(source, merged).added, merge(source, merged).known) == (3, 3)
        assert told(merged) == told(source)
    with open_for_writing(database_url(str(tmp_path / "imported.db"))) as imported:
        Importer(imported).add(format_of(file, combine).read(file))
        assert told(imported) == told(source)


def test_it_is_forgotten_with_the_last_run_that_names_it(bench: Bench) -> None:
    recorder = bench.recorder(database := bench.open())
    record(bench, recorder, 0, background("d1", code="print(1)"))
    for day in (1, 2):
        record(bench, recorder, day, background("d2", code="print(2)"))
    prune(database, bench.moment + timedelta(days=2))
    assert (count(database, DEFINITIONS), count(database, FACTS)) == (1, 4)
    assert told(database) == [({"args": "--n 1"}, {"work.py": "print(2)"}, {"numpy": "1.26"}, MACHINE)]


def test_runs_of_older_releases_join_the_series_of_their_definition(bench: Bench) -> None:
    recorder = bench.recorder(database := bench.open())
    for day, definition in enumerate(["d1", "d0", "d1"]):
        recorder.start_run(start := bench.start(start=bench.moment + timedelta(days=day), definition_hash=definition))
        recorder.finish_run(start.uid, bench.end())
    with database.reading() as connection:
        assert [run.series_hash for run in history(connection, ENTRY)] == ["d1", "d0", "d1"]
    record(bench, recorder, 3, background("d1", series="s1"))
    record(bench, recorder, 4, background("d2", series="s1"))
    with database.reading() as connection:
        assert [run.series_hash for run in history(connection, ENTRY)] == ["s1", "d0", "s1", "s1", "s1"]
