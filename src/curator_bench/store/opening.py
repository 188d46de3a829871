"""Open a database for a command. The user's name for it is resolved, and every failure is one line."""

from __future__ import annotations

import sqlite3
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from curator_bench.errors import BenchError
from curator_bench.store.damage import damage_in
from curator_bench.store.database import Database, database_url, open_for_reading, open_for_writing, reason_of
from curator_bench.store.dead_runs import Here
from curator_bench.store.sqlite import SqliteStorage, take_in_log
from curator_bench.store.urls import shown


@contextmanager
def to_read(named: str) -> Iterator[Database]:
    """Open for reading. Raises BenchError if there is no database, or for a database error in the block."""
    with to_read_if_there(named) as database:
        if database is None:
            file = shown(database_url(named))
            raise BenchError(
                f"{file}: there are no runs here yet; to record some: pytest --benchmark --benchmark-db {file}"
            )
        yield database


@contextmanager
def to_read_if_there(named: str) -> Iterator[Database | None]:
    """Open for reading; None if there is no database. Raises BenchError for a database error in the block."""
    database = open_for_reading(database_url(named))
    if database is None:
        yield None
        return
    with database, _failing_in_one_line(database):
        yield database


@contextmanager
def to_write(named: str, here: Here) -> Iterator[Database]:
    """Open for writing; create the database if it is missing. Raises BenchError for a database error in the block."""
    with open_for_writing(database_url(named), here) as database, _failing_in_one_line(database):
        yield database


@contextmanager
def _failing_in_one_line(database: Database) -> Iterator[None]:
    try:
        yield
    except BenchError:
        raise
    except Exception as error:
        if _may_be_damaged(error) and (damage := damage_in(database)):
            traceback.clear_frames(error.__traceback__)  # ends queries while the database is open
            raise BenchError(damage) from error
        if isinstance(error, SQLAlchemyError):
            raise BenchError(f"{database.shown}: {reason_of(error)}") from error
        raise


def copy_file(named: str, copy: Path) -> None:
    """Copy an SQLite database as it is now, also while others write. Raises BenchError."""
    storage = SqliteStorage(database_url(named))
    with _failing_to_open(storage.shown):
        storage.copy_to(copy)


def make_whole(file: Path) -> None:
    """Make an SQLite file hold everything, without a log beside it. Raises BenchError."""
    with _failing_to_open(str(file)):
        take_in_log(file)


@contextmanager
def _failing_to_open(file: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise BenchError(f"{file} cannot be opened: {getattr(error, 'strerror', None) or error}") from error


def _may_be_damaged(error: Exception) -> bool:
    """True unless SQLite itself failed, as with a file that is locked or not whole."""
    return getattr(getattr(error, "orig", None), "sqlite_errorcode", None) is None


def damage_of(named: str) -> str:
    """Describe what another program changed in the database (`store.damage`); empty if nothing is found."""
    try:
        database = open_for_reading(database_url(named))
    except BenchError:
        return ""
    if database is None:
        return ""
    with database:
        return damage_in(database)
