"""A database on a PostgreSQL server, for teams and many machines: how it is reached, and how long it is waited for."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event

from curator_bench.store.storage import WRITE_PATIENCE, Storage
from curator_bench.store.urls import shown

if TYPE_CHECKING:
    import psycopg

_MIGRATION_LOCK = 0x6375_7261_746F_7221
"""Any number will do that all of us use and nobody else does."""
_LOCK_PATIENCE_S = 3.0
_PATIENCE = {
    # A server that does not answer must not hold up a run: seconds until a connection is given up, and until a network
    # that has gone silent is noticed.
    "connect_timeout": "2",
    "tcp_user_timeout": "5000",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "2",
    "application_name": "curator-bench",
}


class PostgresStorage:
    """A database that an administrator has made; its tables are ours."""

    def __init__(self, url: URL) -> None:
        self._url = _with_patience(url)
        self.shown = shown(url)

    def is_there(self) -> bool:
        return True

    def create(self) -> None:
        """A user of a server cannot always make databases there; that ours is missing is said when it is opened."""

    def engine(self) -> Engine:
        engine = create_engine(self._url)

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            patience_s = connection.get_execution_options().get(WRITE_PATIENCE)
            if patience_s is not None and patience_s < _LOCK_PATIENCE_S:
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = {patience_s * 1000:.0f}")

        return engine

    def reading_engine(self) -> Engine:
        options = f"{self._url.query['options']} -c default_transaction_read_only=on"
        return create_engine(self._url, connect_args={"options": options})

    def prepare(self, engine: Engine) -> None:
        """A server is made for many writers."""

    @contextmanager
    def limited(self, connection: Connection, limit_s: float) -> Iterator[None]:
        """A server whose disk hangs keeps its connections open and says nothing. Then the connection is cut here."""
        driver: psycopg.Connection | None = connection.connection.driver_connection
        assert driver is not None
        timer = threading.Timer(limit_s, _cut, [driver.fileno()])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def is_foreign(self, connection: Connection) -> bool:
        """Others may have tables in the same database; ours stand beside them."""
        return False

    @contextmanager
    def migrating(self) -> Iterator[Connection]:
        engine = create_engine(self._url, poolclass=NullPool)
        with engine.begin() as connection:
            connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
            yield connection

    def keep_copy(self, connection: Connection, revision: str) -> Path | None:
        """Copies of servers are made by those who run them; what fails here is undone by the server."""
        return None

    def copy_for_reading(self, directory: Path) -> Storage | None:
        return None


def _cut(descriptor: int) -> None:
    """The thread that waits for the server is told that there is nothing more to come."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as end:
        end.shutdown(socket.SHUT_RDWR)


def _with_patience(url: URL) -> URL:
    """What the user said in the URL holds."""
    said = {name: value if isinstance(value, str) else value[-1] for name, value in url.query.items()}
    options = f"-c lock_timeout={_LOCK_PATIENCE_S * 1000:.0f} {said.get('options', '')}".strip()
    return url.set(query={**_PATIENCE, **said, "options": options})
