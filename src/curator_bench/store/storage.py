"""What the database needs of the system that keeps it; `sqlite` and `postgresql` each know one such system."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, Engine

WRITE_PATIENCE = "curator_bench_write_patience_s"
"""The execution option that makes a transaction one that writes, and says how long it may wait for its turn."""


class Storage(Protocol):
    """One database, before anything is known of what is in it."""

    @property
    def shown(self) -> str:
        """What people are told it is; never with a password."""

    def is_there(self) -> bool:
        """Whether there is something to read."""

    def create(self) -> None:
        """Make it, empty, where it is not there."""

    def engine(self) -> Engine:
        """For reading and writing what is there; connects when first used, and never makes anything."""

    def reading_engine(self) -> Engine:
        """For reading only: nothing is changed, whatever is asked."""

    def prepare(self, engine: Engine) -> None:
        """Set up for many writers what is known to be ours."""

    def limited(self, connection: Connection, limit_s: float) -> AbstractContextManager[None]:
        """Ends what is asked of the connection when it takes longer, with an error, whatever the other end does."""

    def is_foreign(self, connection: Connection) -> bool:
        """Whether what holds no schema of ours holds something else, which is to be left alone."""

    def migrating(self) -> AbstractContextManager[Connection]:
        """One transaction that changes the schema: all of it or none, by one process at a time."""

    def keep_copy(self, connection: Connection, revision: str) -> Path | None:
        """A copy of the data as it was before the migration to `revision`; None where that is not ours to make."""

    def copy_for_reading(self, directory: Path) -> Storage | None:
        """A copy that may be migrated and thrown away; None where there cannot be one."""
