"""Open a benchmark database. A missing one is created, an older one migrated, a newer one refused."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL, Connection, Engine
from sqlalchemy.exc import DatabaseError

from curator_bench.errors import BenchError
from curator_bench.files.folder_handles import NotUsable
from curator_bench.masking import Mask
from curator_bench.store.migrations import Migrations, is_ours
from curator_bench.store.sqlite import SqliteStorage
from curator_bench.store.storage import WRITE_PATIENCE, Storage
from curator_bench.store.urls import database_url

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from curator_bench.store.dead_runs import Here

__all__ = ["Database", "database_url", "open_for_reading", "open_for_writing", "reason_of"]

logger = logging.getLogger(__name__)

WRITE_PATIENCE_S = 10.0


class Database:
    """An open database at the schema of this code. Connections are made on first use, and again after a loss."""

    def __init__(self, engine: Engine, storage: Storage, shown: str = "", cleanup: ExitStack | None = None) -> None:
        self.engine = engine
        self.shown = shown or storage.shown
        self._storage = storage
        self._cleanup = cleanup or ExitStack()

    @contextmanager
    def writing(self, patience_s: float = WRITE_PATIENCE_S, limit_s: float | None = None) -> Iterator[Connection]:
        """Run one write transaction: commit at the end of the block, roll back if the block raises.

        Waits up to `patience_s` for other writers. With `limit_s`, the connection to a server that stops answering is
        cut.
        """
        with self.engine.connect() as connection:
            connection.execution_options(**{WRITE_PATIENCE: patience_s})
            limit = nullcontext() if limit_s is None else self._storage.limited(connection, limit_s)
            with limit, connection.begin():
                yield connection

    def reading(self) -> AbstractContextManager[Connection]:
        """Run one read transaction, which sees one consistent state. It blocks no writer."""
        return self.engine.begin()

    def session(self) -> Session:
        """Open an ORM session, for objects instead of rows. The caller closes it."""
        from sqlalchemy.orm import Session

        return Session(self.engine)

    def reconnect(self) -> None:
        """Drop connections that may be broken. The next use opens new ones."""
        self.engine.dispose()

    def close(self) -> None:
        """Close all connections. The last process to close an SQLite file leaves no log file beside it."""
        self.engine.dispose()
        self._cleanup.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def open_for_writing(url: URL, here: Here | None = None, migrations: Migrations | None = None) -> Database:
    """Open the database; create or migrate it if needed. Safe if many processes call it at once.

    With `here`, runs whose process is gone are marked interrupted. Raises BenchError if the database cannot be opened,
    and leaves it unchanged.
    """
    storage = _storage_of(url)
    with _said_in_one_line(storage.shown):
        storage.create()
        database = Database(storage.engine(), storage)
        try:
            _make_current(database.engine, storage, migrations or Migrations())
            if here is not None:
                _mark_interrupted(database, here)
        except BaseException:
            database.close()
            raise
    return database


def open_for_reading(url: URL, migrations: Migrations | None = None) -> Database | None:
    """Open the database read-only; None if it does not exist.

    An SQLite file with an older schema is read through a temporary copy that is migrated. On a server there is no such
    copy, so an older schema raises BenchError until the next recording migrates it.
    """
    storage, migrations = _storage_of(url), migrations or Migrations()
    if not storage.is_there():
        return None
    with _said_in_one_line(storage.shown):
        engine = storage.reading_engine()
        try:
            current = _known_revision(engine, storage, migrations)
        except BaseException:
            engine.dispose()
            raise
        if current == migrations.head:
            return Database(engine, storage)
        engine.dispose()
        return None if current is None else _open_copy(storage, migrations)


def _mark_interrupted(database: Database, here: Here) -> None:
    from curator_bench.store.damage import damage_in
    from curator_bench.store.dead_runs import mark_interrupted

    try:
        mark_interrupted(database, here)
    except (TypeError, ValueError) as error:
        if damage := damage_in(database):
            raise BenchError(damage) from error
        raise


@contextmanager
def migrating(url: URL) -> Iterator[Connection]:
    """Open the transaction for the `alembic` command, under the same lock as our own migrations."""
    storage = _storage_of(url)
    storage.create()
    with storage.migrating() as connection:
        yield connection


def reason_of(error: BaseException) -> str:
    """Describe the error in one line without secrets: the database's own message, not the SQL."""
    said = error.strerror if isinstance(error, NotUsable) else getattr(error, "orig", None) or error
    lines = [line.strip() for line in str(said).splitlines() if line.strip()]
    return Mask().hide(lines[0]) if lines else type(said).__name__


def _storage_of(url: URL) -> Storage:
    if url.drivername == "sqlite":
        return SqliteStorage(url)
    from curator_bench.store.postgresql import PostgresStorage

    return PostgresStorage(url)


def _make_current(engine: Engine, storage: Storage, migrations: Migrations) -> None:
    current = _known_revision(engine, storage, migrations)
    storage.prepare(engine)
    if current != migrations.head:
        _migrate(storage, migrations)


def _known_revision(engine: Engine, storage: Storage, migrations: Migrations) -> str | None:
    """Read the database's revision. Raises BenchError if the database is not ours or newer than this code."""
    with engine.begin() as connection:
        current = migrations.current(connection)
        if current is None and not is_ours(connection) and storage.is_foreign(connection):
            raise BenchError(f"{storage.shown} holds other tables than those of curator-bench: name another database")
        if not migrations.knows(current):
            raise BenchError(_too_new(connection, storage, current))
    return current


def _too_new(connection: Connection, storage: Storage, current: str | None) -> str:
    if is_ours(connection):
        return (
            f"{storage.shown} was written by a newer curator-bench (its schema {current} is not known here): upgrade"
            " curator-bench, or name another database"
        )
    return f"{storage.shown} belongs to another program (its schema is {current}): name another database"


def _migrate(storage: Storage, migrations: Migrations, *, keep_copy: bool = True) -> None:
    with storage.migrating() as connection:
        current = migrations.current(connection)
        if current == migrations.head:  # another process migrated while we waited
            return
        copy = storage.keep_copy(connection, migrations.head) if keep_copy else None
        logger.info("bringing %s from schema %s to %s", storage.shown, current, migrations.head)
        with _failing_as_migration(storage.shown, copy):
            migrations.upgrade(connection)


@contextmanager
def _failing_as_migration(shown: str, copy: Path | None) -> Iterator[None]:
    """Turn any exception of a migration into a BenchError. The caller's transaction is rolled back."""
    try:
        yield
    except Exception as error:
        kept = f" (a copy of it is {copy})" if copy else ""
        raise BenchError(
            f"{shown} could not be migrated to the schema of this curator-bench, and was not changed{kept}:"
            f" {reason_of(error)}"
        ) from error


def _open_copy(storage: Storage, migrations: Migrations) -> Database:
    with ExitStack() as cleanup:
        directory = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="curator-bench-"))
        copy = storage.copy_for_reading(Path(directory))
        if copy is None:
            raise BenchError(
                f"{storage.shown} has the schema of an older curator-bench: record into it once, or run"
                " `alembic upgrade head`"
            )
        _migrate(copy, migrations, keep_copy=False)
        return Database(copy.reading_engine(), copy, storage.shown, cleanup.pop_all())


@contextmanager
def _said_in_one_line(shown: str) -> Iterator[None]:
    try:
        yield
    except (DatabaseError, OSError) as error:
        raise BenchError(f"{shown} cannot be opened: {reason_of(error)}") from error
