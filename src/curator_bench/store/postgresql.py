"""A database on a PostgreSQL server, for teams and many machines. Owns its connection settings and time limits."""

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
"""Key of the advisory lock. Any number works that all versions of curator-bench share."""
_LOCK_PATIENCE_S = 3.0
_PATIENCE = {
    # Seconds until a connection attempt is given up, and until a silent network is noticed. A server that does not
    # answer must not hold up a run.
    "connect_timeout": "2",
    "tcp_user_timeout": "5000",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "2",
    "application_name": "curator-bench",
}


class PostgresStorage:
    """A database that an administrator created. Only its tables are ours."""

    def __init__(self, url: URL) -> None:
        self._url = _with_patience(url)
        self.shown = shown(url)

    def is_there(self) -> bool:
        return True

    def create(self) -> None:
        """No-op: users of a server often may not create databases. Opening a missing one fails with a message."""

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
        """No-op: a server handles many writers."""

    @contextmanager
    def limited(self, connection: Connection, limit_s: float) -> Iterator[None]:
        """Cut the connection after `limit_s`. A server whose disk hangs keeps its connections open and stays silent."""
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
        """False: other programs may have tables in the same database, beside ours."""
        return False

    @contextmanager
    def migrating(self) -> Iterator[Connection]:
        engine = create_engine(self._url, poolclass=NullPool)
        with engine.begin() as connection:
            connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
            yield connection

    def keep_copy(self, connection: Connection, revision: str) -> Path | None:
        """None: backups of a server are its administrator's. A failed migration is rolled back by the server."""
        return None

    def copy_for_reading(self, directory: Path) -> Storage | None:
        return None


def _cut(descriptor: int) -> None:
    """Shut the socket down, so that the thread waiting for the server stops."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as end:
        end.shutdown(socket.SHUT_RDWR)


def _with_patience(url: URL) -> URL:
    """Add our time limits to the URL. Options in the user's URL take precedence."""
    said = {name: value if isinstance(value, str) else value[-1] for name, value in url.query.items()}
    options = f"-c lock_timeout={_LOCK_PATIENCE_S * 1000:.0f} {said.get('options', '')}".strip()
    return url.set(query={**_PATIENCE, **said, "options": options})
