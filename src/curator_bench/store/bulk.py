"""Bulk reads and writes: rows are read in batches and written by the fastest way the database offers.

All rows written here were read from a database, so they need no cleaning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from sqlalchemy import Boolean, Column, ColumnElement, Connection, Row, Table, select, true
from sqlalchemy.exc import IntegrityError, OperationalError

from curator_bench.store.column_types import Document, Moment

PARTS_AT_ONCE = 10_000
"""Number of parts of runs held in memory at a time."""
_PROFILES_AT_ONCE = 100
"""The same of profiles, of which one may have hundreds of kilobytes."""
_RUNS_AT_ONCE = 1_000
"""Number of runs that one query names."""


def by_id(
    connection: Connection, table: Table, size: int, among: ColumnElement[bool] | None = None
) -> Iterator[Sequence[Row[Any]]]:
    """Yield all rows of the table, or those `among` them that meet the condition, ordered by id, in lists of `size`.

    No cursor stays open between lists.
    """
    last = -1
    statement = select(table).where(true() if among is None else among).order_by(table.c.id).limit(size)
    while found := connection.execute(statement.where(table.c.id > last)).fetchall():
        yield found
        last = found[-1].id


def parts_between(connection: Connection, table: Table, first: int, last: int) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the parts of the runs with these ids, as plain texts and numbers, one list at a time."""
    columns = ", ".join(map(_read, table.columns))
    text = f"SELECT {columns} FROM {table.name} WHERE run BETWEEN {first:d} AND {last:d} ORDER BY run"
    yield from fetched(connection, text, _PROFILES_AT_ONCE if table.name == "profile" else PARTS_AT_ONCE)


def parts_of(connection: Connection, table: Table, runs: Collection[int]) -> list[tuple[Any, ...]]:
    """Read the parts of these runs. Meant for a few runs."""
    columns = ", ".join(map(_read, table.columns))
    numbers = ", ".join(f"{run:d}" for run in runs)
    with _driver(connection) as driver, closing(driver.cursor()) as cursor:
        cursor.execute(f"SELECT {columns} FROM {table.name} WHERE run IN ({numbers})")
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found


def write(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that were read from the same table."""
    if rows:
        _write(connection, table, list(rows[0]), [tuple(row.values()) for row in rows])


def write_parts(connection: Connection, table: Table, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert parts that `parts_between` or `parts_of` returned."""
    if rows:
        _write(connection, table, table.columns.keys(), rows)


def _write(connection: Connection, table: Table, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    listed = ", ".join(f'"{name}"' for name in names)
    if connection.dialect.name == "postgresql":
        text = f"COPY {table.name} ({listed}) FROM STDIN"
        with _driver(connection) as driver, driver.cursor() as cursor, cursor.copy(text) as copy:
            for row in rows:
                copy.write_row(row)
    else:
        marks = ", ".join("?" * len(names))
        stored = _as_stored(connection, [table.c[name] for name in names], rows)
        connection.exec_driver_sql(f"INSERT INTO {table.name} ({listed}) VALUES ({marks})", stored)


def _as_stored(connection: Connection, columns: list[Column[Any]], rows: Sequence[Sequence[Any]]) -> Any:
    """Convert times and JSON to text for SQLite, which has no type for either."""
    processors = [
        (position, column.type.dialect_impl(connection.dialect).bind_processor(connection.dialect))
        for position, column in enumerate(columns)
        if isinstance(column.type, Moment | Document)
    ]
    if not processors:
        return rows
    changed = [list(row) for row in rows]
    for row in changed:
        for position, process in processors:
            row[position] = process(row[position]) if process else row[position]
    return list(map(tuple, changed))


def _read(column: Column[Any]) -> str:
    """SQL that reads a column. Booleans are read as integers, as SQLite stores them; PostgreSQL accepts these too."""
    return f'CAST("{column.name}" AS INTEGER)' if isinstance(column.type, Boolean) else f'"{column.name}"'


@contextmanager
def _driver(connection: Connection) -> Iterator[Any]:
    """Yield the driver's own connection.

    SQLAlchemy's work per row would take longer than the database does for millions of rows.
    """
    dbapi: Any = connection.dialect.loaded_dbapi
    try:
        yield connection.connection.driver_connection
    except dbapi.Error as error:
        kind = IntegrityError if isinstance(error, dbapi.IntegrityError) else OperationalError
        raise kind("many rows", None, error) from error


def figures(connection: Connection, runs: Sequence[int] | None = None) -> Iterator[list[tuple[int, str, float]]]:
    """Yield run, metric and value of all plain numbers, of all runs or of these, one list at a time, in no order."""
    plain = "SELECT run, name, value FROM metric WHERE value IS NOT NULL AND text IS NULL"
    if runs is None:
        yield from fetched(connection, plain)
        return
    for first in range(0, len(runs), _RUNS_AT_ONCE):
        some = ", ".join(f"{run:d}" for run in runs[first : first + _RUNS_AT_ONCE])
        yield from fetched(connection, f"{plain} AND run IN ({some})")


def fetched(connection: Connection, text: str, at_once: int = PARTS_AT_ONCE) -> Iterator[list[Any]]:
    """Yield the rows of a query as the driver returns them, one list at a time."""
    is_server = connection.dialect.name == "postgresql"  # a named cursor, or it sends all rows at once
    named = {"name": "fetched"} if is_server else {}
    with _driver(connection) as driver, closing(driver.cursor(**named)) as cursor:
        cursor.execute(text)
        while rows := cursor.fetchmany(at_once):
            yield rows
