"""Opening a benchmark database: it is made where it is missing, and brought to the schema of this code; a newer one is
refused."""

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
from curator_bench.masking import Mask
from curator_bench.store.migrations import Migrations, is_ours
from curator_bench.store.sqlite import SqliteStorage
from curator_bench.store.storage import WRITE_PATIENCE, Storage
from curator_bench.store.urls import database_url

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from curator_bench.store.orphans import Here

__all__ = ["Database", "database_url", "open_for_reading", "open_for_writing", "reason_of"]

logger = logging.getLogger(__name__)

WRITE_PATIENCE_S = 10.0


class Database:
    """An open database at the schema of this code. Connections are made when needed, and made again when lost."""

    def __init__(self, engine: Engine, storage: Storage, shown: str = "", cleanup: ExitStack | None = None) -> None:
        self.engine = engine
        self.shown = shown or storage.shown
        self._storage = storage
        self._cleanup = cleanup or ExitStack()

    @contextmanager
    def writing(self, patience_s: float = WRITE_PATIENCE_S, limit_s: float | None = None) -> Iterator[Connection]:
        """One transaction that writes: all of it is kept when the block ends, none of it when the block raises.

        Waits up to `patience_s` for others that write. With `limit_s`, a server that has fallen silent is given up.
        """
        with self.engine.connect() as connection:
            connection.execution_options(**{WRITE_PATIENCE: patience_s})
            limit = nullcontext() if limit_s is None else self._storage.limited(connection, limit_s)
            with limit, connection.begin():
                yield connection

    def reading(self) -> AbstractContextManager[Connection]:
        """One transaction that reads: all it sees is of the same moment. It keeps nobody from writing."""
        return self.engine.begin()

    def session(self) -> Session:
        """For those who would rather have objects than rows. The caller closes it."""
        from sqlalchemy.orm import Session

        return Session(self.engine)

    def reconnect(self) -> None:
        """Lets go of connections that may be broken; the next use makes new ones."""
        self.engine.dispose()

    def close(self) -> None:
        """The last to close a file of SQLite leaves it complete, with nothing beside it."""
        self.engine.dispose()
        self._cleanup.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def open_for_writing(url: URL, here: Here | None = None, migrations: Migrations | None = None) -> Database:
    """Makes the database or brings it up to date where needed, once, however many processes ask at the same moment.

    Given `here`, runs whose process is gone are marked interrupted. Raises BenchError for what cannot be opened, and
    then has changed nothing.
    """
    storage = _storage_of(url)
    with _said_in_one_line(storage.shown):
        storage.create()
        database = Database(storage.engine(), storage)
        try:
            _make_current(database.engine, storage, migrations or Migrations())
            if here is not None:
                from curator_bench.store.orphans import mark_interrupted

                mark_interrupted(database, here)
        except BaseException:
            database.close()
            raise
    return database


def open_for_reading(url: URL, migrations: Migrations | None = None) -> Database | None:
    """Never makes and never changes a database; None where there is none yet.

    A file with an older schema is read through a copy that is brought up to date, and thrown away when closed. On a
    server nothing can be copied so: there, the next to record brings the schema up to date.
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


@contextmanager
def migrating(url: URL) -> Iterator[Connection]:
    """For the `alembic` command: the same transaction, under the same lock, as when we migrate by ourselves."""
    storage = _storage_of(url)
    storage.create()
    with storage.migrating() as connection:
        yield connection


def reason_of(error: BaseException) -> str:
    """What went wrong, in one line without secrets: what the database said, not the SQL that led to it."""
    said = getattr(error, "orig", None) or error
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
    """Where the database is; refuses what is not ours, and what this code is too old for."""
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
        if current == migrations.head:  # another process has done it while we waited
            return
        copy = storage.keep_copy(connection, migrations.head) if keep_copy else None
        logger.info("bringing %s from schema %s to %s", storage.shown, current, migrations.head)
        with _failing_as_migration(storage.shown, copy):
            migrations.upgrade(connection)


@contextmanager
def _failing_as_migration(shown: str, copy: Path | None) -> Iterator[None]:
    """Scripts may raise anything; the transaction around them is undone."""
    try:
        yield
    except Exception as error:
        kept = f" (a copy of it is {copy})" if copy else ""
        raise BenchError(
            f"{shown} could not be brought to the schema of this curator-bench, and is as it was{kept}:"
            f" {reason_of(error)}"
        ) from error


def _open_copy(storage: Storage, migrations: Migrations) -> Database:
    with ExitStack() as cleanup:
        directory = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="curator-bench-"))
        copy = storage.copy_for_reading(Path(directory))
        if copy is None:
            raise BenchError(
                f"{storage.shown} has the schema of an older curator-bench: record into it once, or bring it up to date"
                " with `alembic upgrade head`"
            )
        _migrate(copy, migrations, keep_copy=False)
        return Database(copy.reading_engine(), copy, storage.shown, cleanup.pop_all())


@contextmanager
def _said_in_one_line(shown: str) -> Iterator[None]:
    try:
        yield
    except (DatabaseError, OSError) as error:
        raise BenchError(f"{shown} cannot be opened: {reason_of(error)}") from error
