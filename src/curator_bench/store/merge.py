"""Merge databases: runs and rows missing in the target are added. Merging twice changes nothing.

Rows with the same uid are the same row. Where two databases differ about a run, `store.accounts` decides, so the order
of merging does not matter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from sqlalchemy import Connection, Row, Table, bindparam, delete, func, insert, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from curator_bench.errors import BenchError
from curator_bench.store import bulk
from curator_bench.store.database import Database, reason_of
from curator_bench.store.running import RUNNING
from curator_bench.store.tables import ACCEPTANCES, DEFINITIONS, FACTS, INVOCATIONS, PARTS, RUNS, SESSIONS, SUBJECTS
from curator_bench.values import Verdict

_Answer = TypeVar("_Answer")
_Given = ParamSpec("_Given")
_Values: TypeAlias = dict[str, Any]
Progress = Callable[[int, int], None]
"""Called from time to time with the number of runs processed and the total."""

MERGED = (SESSIONS, INVOCATIONS, SUBJECTS, RUNS, *PARTS, ACCEPTANCES, DEFINITIONS, FACTS)
AT_ONCE = 5000
_COMPARED_AT_ONCE = 100
_PATIENCE_S = 60.0
_TRIES = 5
_RACES = frozenset({"40001", "40P01"})
"""SQLSTATE codes for serialization failure and deadlock. The transaction is tried again."""
_OWN_TO_EACH = frozenset({"id", "session", "invocation"})
"""Columns that each database numbers for itself."""
_STATES = {RUNNING: 0, str(Verdict.INTERRUPTED): 1}
_ENDED = 2
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Merged:
    """Number of runs added, updated in the target, and already known."""

    added: int = 0
    renewed: int = 0
    known: int = 0

    def __add__(self, other: Merged) -> Merged:
        return Merged(self.added + other.added, self.renewed + other.renewed, self.known + other.known)


def merge(source: Database, target: Database, progress: Progress = lambda done, total: None) -> Merged:
    """Add the contents of `source` to `target`.

    Each batch of runs is its own transaction, so others can write in between. After an interruption the finished
    batches stay and are not repeated.
    """
    with _snapshot(source) as connection:
        return _Merge(connection, target, progress).run()


class _Merge:
    """The merge of one source into one target."""

    def __init__(self, source: Connection, target: Database, progress: Progress) -> None:
        self._source = source
        self._target = target
        self._progress = progress
        self._ids: dict[str, dict[int, int]] = {SESSIONS.name: {}, INVOCATIONS.name: {}}
        """Row id in the target by row id in the source, for each table."""

    def run(self) -> Merged:
        for table in (SESSIONS, INVOCATIONS):
            for batch in bulk.by_id(self._source, table, AT_ONCE):
                self._ids[table.name] |= self._transact(self._join, table, batch)
        for batch in bulk.by_id(self._source, SUBJECTS, AT_ONCE):
            self._transact(self._add_subjects, batch)
        for table in (ACCEPTANCES, FACTS, DEFINITIONS):
            for batch in bulk.by_id(self._source, table, AT_ONCE):
                self._transact(self._join, table, batch)
        return self._merge_runs()

    def _merge_runs(self) -> Merged:
        total = self._source.scalar(select(func.count()).select_from(RUNS)) or 0
        done, merged = 0, Merged()
        for batch in bulk.by_id(self._source, RUNS, AT_ONCE):
            merged += self._transact(self._take, batch)
            done += len(batch)
            self._progress(done, total)
        return merged

    def _transact(
        self,
        work: Callable[Concatenate[Connection, _Given], _Answer],
        *given: _Given.args,
        **named: _Given.kwargs,
    ) -> _Answer:
        """Run `work` in a transaction. Try again if another process wrote the same rows at the same moment."""
        for tried in range(1, _TRIES + 1):
            try:
                with self._target.writing(_PATIENCE_S) as connection:
                    return work(connection, *given, **named)
            except DBAPIError as error:
                if _is_of_the_source(error):
                    raise
                if tried == _TRIES or not _is_race(error):
                    raise BenchError(f"{self._target.shown}: {reason_of(error)}") from error
        raise AssertionError("unreachable")

    def _join(self, target: Connection, table: Table, batch: Sequence[Row[Any]]) -> dict[int, int]:
        """Merge rows that have a uid; return their ids in the target by their ids in the source."""
        known = _known(target, table, batch)
        _insert(target, table, [self._moved(row) for row in batch if row.uid not in known])
        _rewrite(target, table, self._fuller_rows(batch, known))
        return _ids_of(target, table, batch)

    def _add_subjects(self, target: Connection, batch: Sequence[Row[Any]]) -> None:
        moved = [self._moved(row) for row in batch]
        sessions = {values["session"] for values in moved}
        one_at_a_time = select(SESSIONS.c.id).where(SESSIONS.c.id.in_(sessions)).order_by(SESSIONS.c.id)
        target.execute(one_at_a_time.with_for_update())
        there = target.execute(select(SUBJECTS).where(SUBJECTS.c.session.in_(sessions)))
        seen = {_without_id(dict(row._mapping)) for row in there}
        new = {_without_id(values): values for values in moved if _without_id(values) not in seen}
        _insert(target, SUBJECTS, list(new.values()))

    def _take(self, target: Connection, batch: Sequence[Row[Any]]) -> Merged:
        known = _known(target, RUNS, batch)
        new = [row for row in batch if row.uid not in known]
        bulk.write(target, RUNS, [self._moved(row) for row in new])
        self._copy_parts(target, new)
        renewed = sum(
            self._renew(target, some, known)
            for some in _in_lists((row for row in batch if row.uid in known), _COMPARED_AT_ONCE)
        )
        return Merged(len(new), renewed, len(batch) - len(new) - renewed)

    def _renew(self, target: Connection, rows: Sequence[Row[Any]], known: Mapping[str, _Values]) -> int:
        """Merge runs that both databases hold; return how many changed in the target."""
        states = {row.id: (state_of(dict(row._mapping)), state_of(known[row.uid])) for row in rows}
        further = [row for row in rows if states[row.id][0] > states[row.id][1]]
        alike = [row for row in rows if states[row.id][0] == states[row.id][1]]
        _rewrite(target, RUNS, [{**self._moved(row), "the_id": known[row.uid]["id"]} for row in further])
        _delete_parts(target, [known[row.uid]["id"] for row in further])
        self._copy_parts(target, further)
        better = self._fuller_rows(alike, known)
        _rewrite(target, RUNS, better)
        added = self._add_parts(target, {row.id: known[row.uid]["id"] for row in alike})
        return len(further) + len(added | {values["the_id"] for values in better})

    def _fuller_rows(self, rows: Iterable[Row[Any]], known: Mapping[str, _Values]) -> list[_Values]:
        """Updates from source rows that say more than the target's rows."""
        both = ((self._moved(row), known[row.uid]) for row in rows if row.uid in known)
        return [
            {**moved, "the_id": there["id"]} for moved, there in both if says_more({**moved, "id": there["id"]}, there)
        ]

    def _copy_parts(self, target: Connection, rows: Sequence[Row[Any]]) -> None:
        if not rows:
            return
        ids = _ids_of(target, RUNS, rows)
        for table in PARTS:
            for parts in bulk.parts_between(self._source, table, min(ids), max(ids)):
                bulk.write_parts(target, table, [(ids[part[0]], *part[1:]) for part in parts if part[0] in ids])

    def _add_parts(self, target: Connection, ids: Mapping[int, int]) -> set[int]:
        """Add the parts the target lacks of runs with equal progress; return the ids of the runs that changed."""
        changed: set[int] = set()
        for table in PARTS if ids else ():
            key = slice(len(table.primary_key))
            there = {part[key]: part for part in bulk.parts_of(target, table, ids.values())}
            here = [(ids[part[0]], *part[1:]) for part in bulk.parts_of(self._source, table, ids)]
            better = [part for part in here if _says_more(part, there.get(part[key]))]
            _replace_parts(target, table, better)
            changed.update(part[0] for part in better)
        return changed

    def _moved(self, row: Row[Any]) -> _Values:
        """The row's values with the target's ids for session and invocation, without its own id."""
        values = dict(row._mapping)
        del values["id"]
        if "session" in values:
            values["session"] = self._ids[SESSIONS.name][values["session"]]
        if values.get("invocation") is not None:
            values["invocation"] = self._ids[INVOCATIONS.name][values["invocation"]]
        return values


@contextmanager
def _snapshot(database: Database) -> Iterator[Connection]:
    """Read one consistent state, whatever others write meanwhile."""
    with database.reading() as connection:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield connection


def _known(target: Connection, table: Table, batch: Iterable[Row[Any]]) -> dict[str, _Values]:
    found = target.execute(select(table).where(table.c.uid.in_([row.uid for row in batch])))
    return {row.uid: dict(row._mapping) for row in found}


def _ids_of(target: Connection, table: Table, batch: Iterable[Row[Any]]) -> dict[int, int]:
    uids = {row.uid: row.id for row in batch}
    found = target.execute(select(table.c.uid, table.c.id).where(table.c.uid.in_(uids)))
    return {uids[uid]: number for uid, number in found}


def _insert(target: Connection, table: Table, rows: list[_Values]) -> None:
    if rows:
        target.execute(insert(table), rows)


def _rewrite(target: Connection, table: Table, rows: list[_Values]) -> None:
    if rows:
        target.execute(update(table).where(table.c.id == bindparam("the_id")), rows)


def _delete_parts(target: Connection, runs: Sequence[int]) -> None:
    for table in PARTS if runs else ():
        target.execute(delete(table).where(table.c.run.in_(runs)))


def _replace_parts(target: Connection, table: Table, parts: Sequence[tuple[Any, ...]]) -> None:
    if not parts:
        return
    keys = list(table.primary_key)
    same = [column == bindparam(f"the_{column.name}") for column in keys]
    target.execute(
        delete(table).where(*same),
        [{f"the_{column.name}": value for column, value in zip(keys, part, strict=False)} for part in parts],
    )
    bulk.write_parts(target, table, parts)


def _says_more(part: tuple[Any, ...], other: tuple[Any, ...] | None) -> bool:
    return other is None or (part != other and says_more(dict(enumerate(part)), dict(enumerate(other))))


def _without_id(values: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(value for name, value in sorted(values.items()) if name != "id")


def _in_lists(items: Iterable[Row[Any]], size: int) -> Iterator[list[Row[Any]]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some


def _is_of_the_source(error: DBAPIError) -> bool:
    """True if a value was read that could not be converted. A database that fails gives a code."""
    codes = (getattr(error.orig, name, None) for name in ("sqlite_errorcode", "sqlstate"))
    return not error.connection_invalidated and not any(codes)


def _is_race(error: DBAPIError) -> bool:
    return isinstance(error, IntegrityError) or getattr(error.orig, "sqlstate", None) in _RACES


def state_of(run: Mapping[str, Any]) -> tuple[int, datetime]:
    """Sort key of a run's progress; the greater one wins.

    An ended run outranks one marked interrupted, which outranks one under way. Between two equal states the later one
    wins.
    """
    return _STATES.get(run["verdict"], _ENDED), run["end"] or run["heartbeat_at"] or _NEVER


def says_more(row: Mapping[Any, Any], other: Mapping[Any, Any]) -> bool:
    """True if `row` replaces `other`, given two rows with equal progress. The row with fewer gaps wins."""
    return row != other and _content(row) > _content(other)


def _content(row: Mapping[Any, Any]) -> tuple[int, str]:
    """Sort key by number of gaps. The text breaks ties, so that the same row always wins."""
    gaps = sum(value is None for value in row.values())
    return -gaps, repr(sorted((name, value) for name, value in row.items() if name not in _OWN_TO_EACH))
