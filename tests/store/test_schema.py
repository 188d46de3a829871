from __future__ import annotations

import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from curator_bench.store.records import Figures
from curator_bench.store.schema import Base, Metric, TestRun
from curator_bench.store.session_uid import FILE_NAME, session_uid

if TYPE_CHECKING:
    from store.conftest import Bench


def test_the_query_people_know_works(sqlite_bench: Bench) -> None:
    sqlite3 = shutil.which("sqlite3")
    if sqlite3 is None:
        pytest.skip("the command sqlite3 is not here")
    recorder = sqlite_bench.recorder(database := sqlite_bench.open())
    uid = recorder.start_run(sqlite_bench.start("test_write_wide_data"))
    recorder.finish_run(uid, sqlite_bench.end(figures=Figures(ray_version="2.60.0", average_memory=2.5e9)))
    query = "select ray_version, average_memory from test_run where name = 'test_write_wide_data';"
    for _ in ("while it is recorded into", "and afterwards"):
        done = subprocess.run(
            [sqlite3, str(sqlite_bench.url.database), query], capture_output=True, text=True, check=True
        )
        assert done.stdout == "2.60.0|2500000000.0\n"
        database.close()


def test_the_query_people_know_works_on_every_database(bench: Bench) -> None:
    recorder = bench.recorder()
    uid = recorder.start_run(bench.start("test_write_wide_data"))
    recorder.finish_run(uid, bench.end(figures=Figures(ray_version="2.60.0", average_memory=2.5e9)))
    query = "select ray_version, average_memory from test_run where name = 'test_write_wide_data'"
    with bench.open().reading() as connection:
        assert list(map(tuple, connection.exec_driver_sql(query))) == [("2.60.0", 2.5e9)]


def test_the_last_values_of_a_metric_are_found_without_searching_or_sorting(sqlite_bench: Bench) -> None:
    last = (
        sa.select(TestRun.start, Metric.value)
        .join(Metric, Metric.run == TestRun.id)
        .where(TestRun.name == "a", TestRun.path == "b", TestRun.machine_id == "c", Metric.name == "d")
        .order_by(TestRun.start.desc())
        .limit(50)
    )
    with sqlite_bench.open().reading() as connection:
        text = last.compile(connection, compile_kwargs={"literal_binds": True})
        plan = [str(row.detail) for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}")]
    first, second = plan
    assert first.endswith("ix_test_run_name_path_machine_id_start (name=? AND path=? AND machine_id=?)")
    assert second == "SEARCH metric USING PRIMARY KEY (run=? AND name=?)"


def test_a_session_has_one_uid_however_many_ask_at_once(tmp_path: Path) -> None:
    all_uids = set()
    for number in range(50):
        directory = tmp_path / "results" / f"session_{number}"
        together = threading.Barrier(8)
        with ThreadPoolExecutor(8) as threads:
            uids = set(threads.map(lambda _: (together.wait(), session_uid(directory))[1], range(8)))  # noqa: B023
        assert uids == {session_uid(directory)}
        assert [file.name for file in directory.iterdir()] == [FILE_NAME]
        all_uids |= uids
    assert len(all_uids) == 50


def test_a_session_whose_uid_was_broken_gets_another(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("half a")
    uid = session_uid(tmp_path)
    assert len(uid) == 32
    assert session_uid(tmp_path) == uid


def test_a_session_in_a_place_that_cannot_be_written_has_a_uid_too(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert len(session_uid(tmp_path / "file" / "nightly")) == 32


DOCS = Path(__file__).parents[2] / "docs" / "database.md"


def test_the_docs_name_every_table_and_column() -> None:
    _, _, chapter = DOCS.read_text().partition("## The schema")
    for table in Base.metadata.sorted_tables:
        assert f"**{table.name}**" in chapter
        missing = [column.name for column in table.columns if f"`{column.name}`" not in chapter]
        assert missing == [], table.name


def test_the_docs_show_the_example_that_the_tests_run() -> None:
    _, _, text = DOCS.read_text().partition("<!-- tests/store/bankruptcy_example.py -->\n```python\n")
    shown, _, _ = text.partition("```\n")
    assert shown in Path(__file__).with_name("bankruptcy_example.py").read_text()
