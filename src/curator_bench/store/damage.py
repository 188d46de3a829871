"""Find a value in a database that no version of ours writes: another program has changed it.

SQLite stores any value in any column. Every row is read, so this is called only after something has failed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy import Boolean, Column, Connection, Integer, Table, select
from sqlalchemy.exc import SQLAlchemyError

from curator_bench.store.column_types import Document, Moment, Number
from curator_bench.store.records import fact_uid
from curator_bench.store.rows import SOURCES
from curator_bench.store.running import RUNNING
from curator_bench.store.schema import Base
from curator_bench.store.tables import DEFINITIONS, FACTS, INVOCATIONS, PROFILES, RUNS, SESSIONS, STAGES
from curator_bench.values import StageKind, Verdict

_SHOWN = 40
_KINDS: tuple[tuple[type, str, tuple[str, ...]], ...] = (
    (Boolean, "true or false", ("integer",)),
    (Integer, "a whole number", ("integer",)),
    (Number, "a number", ("real", "integer")),
    (Moment, "a time", ("text",)),
    (Document, "JSON", ("text", "integer", "real")),
)
_WORDS: dict[Column[Any], tuple[frozenset[str], str]] = {
    RUNS.c.verdict: (frozenset([RUNNING, *map(str, Verdict)]), "a verdict"),
    STAGES.c.kind: (frozenset(map(str, StageKind)), "a kind of stage"),
    PROFILES.c.unit: (frozenset(["samples", "bytes"]), "a unit"),
}
"""Columns that hold one of a few words, and what they are called."""
_PARTS_OF_A_DEFINITION: dict[str, Any] = {
    "args": list,
    "datasets": list,
    "parameters": dict,
    "ray": (dict, bool),
    SOURCES: dict,
}


class Readable(Protocol):
    """A `Database`, as far as it is needed here."""

    @property
    def shown(self) -> str: ...

    def reading(self) -> AbstractContextManager[Connection]: ...


def damage_in(database: Readable) -> str:
    """Describe the first value that is not ours, and what to do; empty if there is none or it cannot be looked for."""
    try:
        with database.reading() as connection:
            found = next(_damages(connection), None) if connection.dialect.name == "sqlite" else None
    except SQLAlchemyError:
        return ""
    if found is None:
        return ""
    return f"{database.shown}: {found}. Another program changed it: correct it, or use a copy of the database"


def _damages(connection: Connection) -> Iterator[str]:
    for table in Base.metadata.sorted_tables:
        yield from _of_another_type(connection, table)
        yield from _of_another_form(connection, table)
    for table_name, row, owner, _ in connection.exec_driver_sql("PRAGMA foreign_key_check"):
        which = f"row {row} of {table_name}" if row is not None else f"a row of {table_name}"
        yield f"{which} belongs to no row of {owner}"


def _of_another_type(connection: Connection, table: Table) -> Iterator[str]:
    wrong = {column: f"typeof({_quoted(column)}) NOT IN ({_types(column)})" for column in table.columns}
    names = ", ".join(f"{condition}, typeof({_quoted(column)})" for column, condition in wrong.items())
    keys = list(table.primary_key)
    shown = ", ".join(map(_quoted, keys))
    statement = f"SELECT {shown}, {names} FROM {table.name} WHERE {' OR '.join(wrong.values())} LIMIT 1"
    for row in connection.exec_driver_sql(statement):
        key, found = row[: len(keys)], row[len(keys) :]
        for column, is_wrong, kind in zip(wrong, found[::2], found[1::2], strict=True):
            if is_wrong:
                yield _said(table, key, column, f"is {_article(kind)}, expected {_expected(column)}")


def _of_another_form(connection: Connection, table: Table) -> Iterator[str]:
    """Look at texts that stand for something else: times, JSON, verdicts."""
    checks = {column: check for column in table.columns if (check := _check_of(column)) is not None}
    keys = list(table.primary_key)
    if not checks:
        return
    names = ", ".join(map(_quoted, [*keys, *checks]))
    for row in connection.exec_driver_sql(f"SELECT {names} FROM {table.name}"):
        key, values = row[: len(keys)], row[len(keys) :]
        for (column, check), value in zip(checks.items(), values, strict=True):
            if value is not None and not check(value):
                yield _said(table, key, column, f"is {str(value)[:_SHOWN]!r}, expected {_expected(column)}")
    if table is FACTS:
        yield from _changed_facts(connection)


def _check_of(column: Column[Any]) -> Callable[[Any], bool] | None:
    if column in _WORDS:
        return _WORDS[column][0].__contains__
    if isinstance(column.type, Moment):
        return _is_time
    return _DOCUMENTS.get(column, _is_json) if isinstance(column.type, Document) else None


def _is_time(value: Any) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is None
    except (TypeError, ValueError):
        return False


def _is_json(value: Any, is_ours: Callable[[Any], bool] = lambda found: True) -> bool:
    if isinstance(value, int | float):
        return is_ours(value)
    try:
        return is_ours(json.loads(value))
    except (ValueError, RecursionError):
        return False


def _is_definition(found: Any) -> bool:
    return isinstance(found, dict) and all(
        found.get(name) is None or isinstance(found[name], kind) for name, kind in _PARTS_OF_A_DEFINITION.items()
    )


def _holds_texts(found: Any) -> bool:
    texts = found.values() if isinstance(found, dict) else ()
    return isinstance(found, dict) and all(isinstance(text, str) for text in texts)


_DOCUMENTS: dict[Column[Any], Callable[[Any], bool]] = {
    SESSIONS.c.branches: lambda value: _is_json(
        value, lambda found: isinstance(found, list) and all(isinstance(one, str) for one in found)
    ),
    SESSIONS.c.sink_urls: lambda value: _is_json(value, _holds_texts),
    RUNS.c.sink_urls: lambda value: _is_json(value, _holds_texts),
    INVOCATIONS.c.environment: lambda value: _is_json(value, lambda found: isinstance(found, dict)),
    DEFINITIONS.c.content: lambda value: _is_json(value, _is_definition),
}


def _changed_facts(connection: Connection) -> Iterator[str]:
    """Find facts that are not what their uid says, which is a hash of the content."""
    for row in connection.execute(select(FACTS)):
        if fact_uid(row.content) != row.uid:
            yield _said(FACTS, (row.id,), FACTS.c.content, "is not what its uid says")


def _types(column: Column[Any]) -> str:
    stored = next((types for kind, _, types in _KINDS if isinstance(column.type, kind)), ("text",))
    return ", ".join(f"'{name}'" for name in (*stored, *(("null",) if column.nullable else ())))


def _expected(column: Column[Any]) -> str:
    if column in _WORDS:
        return _WORDS[column][1]
    return next((said for kind, said, _ in _KINDS if isinstance(column.type, kind)), "a text")


def _article(kind: str) -> str:
    words = {"integer": "a whole number", "real": "a number", "blob": "binary", "null": "missing"}
    return words.get(kind, f"a {kind}")


def _said(table: Table, key: tuple[Any, ...], column: Column[Any], what: str) -> str:
    row = ", ".join(f"{one.name} {str(value)[:_SHOWN]!s}" for one, value in zip(table.primary_key, key, strict=True))
    return f"{column.name} of {table.name} ({row}) {what}"


def _quoted(column: Column[Any]) -> str:
    return f'"{column.name}"'
