"""The databases the store is tested on: each test that takes `bench` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import URL
from store.postgres_server import PostgresServer, start_server

from curator_bench.store.database import Database, database_url, open_for_writing
from curator_bench.store.migrations import shipped_folder
from curator_bench.store.recorder import Recorder
from curator_bench.store.records import InvocationRecord, RunEnd, RunStart, SessionRecord
from curator_bench.store.schema import Base
from curator_bench.values import Verdict


class Bench:
    """A database that holds nothing yet, what to put into it, and how to look at what it holds."""

    moment = datetime(2026, 1, 23, 14, 30, tzinfo=UTC)

    def __init__(self, url: URL, results: Path) -> None:
        self.url = url
        self.results = results
        self._opened: list[Database] = []

    @property
    def session_dir(self) -> Path:
        return self.results / "nightly"

    def open(self, **how: Any) -> Database:
        """At head; closed when the test ends."""
        self._opened.append(open_for_writing(self.url, **how))
        return self._opened[-1]

    def close(self) -> None:
        for database in self._opened:
            database.close()

    def recorder(self, database: Database | None = None, *, invocation: str = "an-invocation", **more: Any) -> Recorder:
        session = SessionRecord("nightly", str(self.results), **more)
        return Recorder(database or self.open(), session, InvocationRecord(invocation, self.moment, host="here"))

    def start(self, name: str = "removal[dense]", **more: Any) -> RunStart:
        given = {"path": "dedup/matrix.yaml", "start": self.moment, "originalname": name.partition("[")[0], **more}
        return RunStart(name, **given)

    def end(self, verdict: Verdict = Verdict.PASSED, **more: Any) -> RunEnd:
        return RunEnd(verdict, self.moment + timedelta(seconds=90), duration=90.0, **more)

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """What a user sees who asks by hand, in the order of the columns."""
        quoted = ", ".join(f'"{column}"' for column in columns)
        with open_for_writing(self.url) as database, database.reading() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(f"SELECT {quoted} FROM {table} ORDER BY {quoted}")]


def content_of(database: Database) -> dict[str, Any]:
    """All a database holds, by uids: the numbers each gives to its rows by itself are left out."""
    with database.reading() as connection:
        rows = {
            table.name: [dict(row) for row in connection.execute(sa.select(table)).mappings()]
            for table in Base.metadata.sorted_tables
        }
    uids = {
        column: {row["id"]: row["uid"] for row in rows[table]}
        for column, table in {"session": "bench_session", "invocation": "invocation", "run": "test_run"}.items()
    }
    return {table: sorted(_told(row, uids) for row in found) for table, found in rows.items()}


def _told(row: dict[str, Any], uids: dict[str, dict[int, str]]) -> str:
    shown = {name: uids[name].get(value) if name in uids else value for name, value in row.items() if name != "id"}
    return repr(sorted(shown.items()))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One for all tests of this process; they take a database each."""
    server = start_server()
    yield server
    server.close()


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """One that a test may stop and start."""
    server = start_server()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> URL:
    """A database that holds nothing yet."""
    if request.param == "sqlite":
        return database_url(tmp_path / "benchmark.db")
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return database_url(server.new_database())


@pytest.fixture
def bench(url: URL, tmp_path: Path) -> Iterator[Bench]:
    """On each kind of database."""
    made = Bench(url, tmp_path / "results")
    yield made
    made.close()


@pytest.fixture
def sqlite_bench(tmp_path: Path) -> Iterator[Bench]:
    """For what only a file can go through."""
    made = Bench(database_url(tmp_path / "benchmark.db"), tmp_path / "results")
    yield made
    made.close()


@pytest.fixture(
    params=["sqlite to sqlite", "sqlite to postgresql", "postgresql to sqlite", "postgresql to postgresql"],
)
def two_benches(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Bench, Bench]]:
    """Two databases that hold nothing yet, of each kind and the other."""
    kinds = request.param.split(" to ")
    made = []
    for place, kind in zip(("here", "there"), kinds, strict=True):
        named = tmp_path / f"{place}.db"
        url = named if kind == "sqlite" else request.getfixturevalue("postgres_server").new_database()
        made.append(Bench(database_url(url), tmp_path / f"results {place}"))
    yield made[0], made[1]
    for bench in made:
        bench.close()


@pytest.fixture
def content() -> Callable[[Database], dict[str, Any]]:
    return content_of


@pytest.fixture
def alembic_folder(tmp_path: Path) -> Path:
    """A copy of ours, for tests that add revisions."""
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(shipped_folder(), tmp_path / "alembic", ignore=ignored))
