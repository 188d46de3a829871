"""Interface to the system that keeps a database; `sqlite` and `postgresql` implement it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, Engine

WRITE_PATIENCE = "curator_bench_write_patience_s"
"""Execution option that makes a transaction a write transaction; its value is the longest wait for its turn."""


class Storage(Protocol):
    """One database, whose contents are not known yet."""

    @property
    def shown(self) -> str:
        """Name for messages; never contains a password."""

    def is_there(self) -> bool:
        """True if the database exists."""

    def create(self) -> None:
        """Create it, empty, if it does not exist."""

    def engine(self) -> Engine:
        """Engine for reading and writing. It connects on first use and never creates the database."""

    def reading_engine(self) -> Engine:
        """Engine for reading only; every write fails."""

    def prepare(self, engine: Engine) -> None:
        """Prepare a database known to be ours for many writers."""

    def limited(self, connection: Connection, limit_s: float) -> AbstractContextManager[None]:
        """Fail statements in the block that take longer than the limit, even if the other end is silent."""

    def is_foreign(self, connection: Connection) -> bool:
        """True if a database without our schema holds another program's tables, which are left alone."""

    def migrating(self) -> AbstractContextManager[Connection]:
        """Run one transaction that changes the schema, in one process at a time."""

    def keep_copy(self, connection: Connection, revision: str) -> Path | None:
        """Copy the data before the migration to `revision`; None if a copy is not ours to make."""

    def copy_for_reading(self, directory: Path) -> Storage | None:
        """Make a copy to migrate and throw away; None if that is impossible."""
