"""Marks of runs: digests that tell which entries, machines and sessions of the history changed since they were read.

All runs are looked at, but none of their metrics is read, so this takes a second for 100,000 runs.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, func, select

from curator_bench.store import bulk
from curator_bench.store.all_series import Group, seconds
from curator_bench.store.queries import EntryKey
from curator_bench.store.run_order import commit_places, in_order
from curator_bench.store.tables import (
    ACCEPTANCES,
    DEFINITIONS,
    INVOCATIONS,
    IS_HISTORY,
    METRICS,
    REQUIREMENTS,
    RUNS,
    SESSIONS,
    SUBJECTS,
)
from curator_bench.values import CommitPlace

BLOCK = 32
"""Number of runs that share a mark. Blocks of an entry are in the order of its runs, so a new run changes the last."""
_OF_A_RUN = (
    *("id", "session", "name", "path", "machine_id", "verdict", "originalname", "uid", "definition_hash", "attempt"),
    *("start", "end", "duration", "error", "log_path", "sink_urls", "ci_run_url", "cluster_details_url"),
    "performance_report_url",
)
_SESSION, _DEFINITION, _START = map(_OF_A_RUN.index, ("session", "definition_hash", "start"))
_SIZE = 12
_BROKEN = frozenset(["failed", "crashed", "timeout", "error", "interrupted"])


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive runs of an entry, by their ids."""

    mark: str
    runs: Sequence[int]
    moved: Mapping[int, float]
    """The times of runs that stand elsewhere than they began, as a later commit was measured before (`run_order`)."""


@dataclass(frozen=True, slots=True)
class EntryMarks:
    """State of an entry's runs, as marks."""

    entry: EntryKey
    mark: str
    blocks: Sequence[Block]
    machines: Mapping[str | None, str]
    """The mark of each machine's runs, in the order machines came."""
    newest_machine: str | None
    broken: Sequence[int]
    """The runs since the last one that was fine."""
    broken_sessions: int
    """The number of sessions with such runs."""

    @property
    def runs(self) -> int:
        return sum(len(block.runs) for block in self.blocks)

    @property
    def groups(self) -> list[Group]:
        return [(self.entry.name, self.entry.path, machine) for machine in self.machines]


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of a database: of its entries by name, and of its sessions by id."""

    entries: Sequence[EntryMarks]
    sessions: Mapping[int, str]


@dataclass(slots=True)
class _Gathered:
    """The digests of one entry's runs while they are read. A row is hashed once: its digest stands for it."""

    common: bytes
    originalname: str = ""
    blocks: list[tuple[list[bytes], list[int], dict[int, float]]] = field(default_factory=list)
    machines: dict[str | None, list[bytes]] = field(default_factory=dict)
    newest_machine: str | None = None
    broken: list[int] = field(default_factory=list)
    broken_sessions: set[int] = field(default_factory=set)
    deepest: dict[str | None, int] = field(default_factory=dict)
    """The depth of the commit that each machine measured last."""
    is_in_order: bool = True

    def note(self, machine: str | None, place: CommitPlace | None) -> None:
        """Note the place of the commit of the run that is added next."""
        if place is not None:
            self.is_in_order &= place.depth >= self.deepest.get(machine, 0)
            self.deepest[machine] = place.depth

    def add(self, row: Sequence[Any], digest: bytes, moved: float | None = None) -> None:
        run, session, _, _, machine, verdict, originalname, *_ = row
        if not self.blocks or len(self.blocks[-1][1]) == BLOCK:
            self.blocks.append(([], [], {}))
        digests, runs, times = self.blocks[-1]
        runs.append(run)
        if moved is not None:
            times[run] = moved
            digest += repr(moved).encode()
        digests.append(digest)
        if machine not in self.machines:
            self.machines[machine] = [self.common]
        self.machines[machine].append(digest)
        self.newest_machine, self.originalname = machine, originalname
        if verdict in _BROKEN:
            self.broken.append(run)
            self.broken_sessions.add(session)
        else:
            self.broken.clear()
            self.broken_sessions.clear()

    def marks(self, name: str, path: str) -> EntryMarks:
        blocks = [Block(_digest_of_all(digests), runs, moved) for digests, runs, moved in self.blocks]
        machines = {machine: _digest_of_all(digests) for machine, digests in self.machines.items()}
        whole = _digest("".join([*(block.mark for block in blocks), *machines.values()]).encode())
        key = EntryKey(name, path, self.originalname)
        broken = self.broken, len(self.broken_sessions)
        return EntryMarks(key, whole, blocks, machines, self.newest_machine, *broken)


def marks_of(connection: Connection) -> Marks:
    """Read the marks of all entries and sessions."""
    sessions, accepted, places = _sessions(connection), _accepted(connection), commit_places(connection)
    rows_as_digests = _Digests(sessions, _definitions(connection))
    found: dict[tuple[str, str], _Gathered] = {}
    ran = {number: [digest] for number, digest in sessions.items()}
    for rows in bulk.fetched(connection, _sql(connection, _runs())):
        for row in rows:
            _, session, name, path, machine, *_ = row
            gathered = found.get((name, path))
            if gathered is None:
                gathered = found[name, path] = _Gathered(accepted.get((name, path), b""))
            digest = rows_as_digests.of(row)
            gathered.note(machine, places.get(session))
            gathered.add(row, digest)
            ran[session].append(digest)
    for key in [key for key, gathered in found.items() if not gathered.is_in_order]:
        found[key] = _gathered_in_order(connection, key, _Gathered(accepted.get(key, b"")), rows_as_digests, places)
    entries = [found[key].marks(*key) for key in sorted(found)]
    return Marks(entries, {number: _digest_of_all(digests) for number, digests in ran.items()})


class _Digests(NamedTuple):
    """Turns rows of runs into digests that change with what the dashboard shows of them."""

    sessions: Mapping[int, bytes]
    definitions: Mapping[str, bytes]

    def of(self, row: Sequence[Any]) -> bytes:
        own = repr(row).encode("utf-8", "surrogatepass")
        text = own + self.sessions[row[_SESSION]] + self.definitions.get(row[_DEFINITION], b"")
        return hashlib.blake2b(text, digest_size=_SIZE).digest()


class _Row(NamedTuple):
    session: int
    machine: str | None
    columns: Sequence[Any]


def _gathered_in_order(
    connection: Connection,
    key: tuple[str, str],
    gathered: _Gathered,
    rows_as_digests: _Digests,
    places: Mapping[int, CommitPlace],
) -> _Gathered:
    """Gather the runs of an entry in the order of their commits, as an older one was measured later."""
    statement = _runs().where(RUNS.c.name == key[0], RUNS.c.path == key[1])
    columns = [row for rows in bulk.fetched(connection, _sql(connection, statement)) for row in rows]
    starts = seconds([row[_START] for row in columns]).tolist()
    rows = [_Row(row[1], row[4], row) for row in columns]
    began = dict(zip((row[0] for row in columns), starts, strict=True))
    for time, (_, _, row) in in_order(rows, starts, places, lambda row: row.machine):
        gathered.add(row, rows_as_digests.of(row), None if time == began[row[0]] else time)
    return gathered


def _runs() -> Select[Any]:
    parts = [
        select(func.count()).where(table.c.run == RUNS.c.id).scalar_subquery() for table in (METRICS, REQUIREMENTS)
    ]
    statement = select(*(RUNS.c[name] for name in _OF_A_RUN), *parts).where(IS_HISTORY)
    return statement.order_by(RUNS.c.start, RUNS.c.id)


def _sessions(connection: Connection) -> dict[int, bytes]:
    """Return a digest of the rows of each session, of its invocations and of its packages."""
    found: dict[int, list[Any]] = defaultdict(list)
    for table, owner in ((SESSIONS, "id"), (INVOCATIONS, "session"), (SUBJECTS, "session")):
        statement = select(table.c[owner].label("owner"), *table.c).order_by(table.c.id)
        for rows in bulk.fetched(connection, _sql(connection, statement)):
            for number, *values in rows:
                found[number].append(values)
    return {number: _digest(repr(values).encode("utf-8", "surrogatepass")).encode() for number, values in found.items()}


def _definitions(connection: Connection) -> dict[str, bytes]:
    """Return what decides which runs with a definition are one history, and where it is said to have changed."""
    columns = DEFINITIONS.c.uid, DEFINITIONS.c.series_hash, DEFINITIONS.c.content_hash
    return {row.uid: repr(tuple(row)).encode() for row in connection.execute(select(*columns))}


def _accepted(connection: Connection) -> dict[tuple[str, str], bytes]:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in connection.execute(select(ACCEPTANCES).order_by(ACCEPTANCES.c.id)):
        found[row.name, row.path].append(repr(tuple(row)))
    return {key: "".join(texts).encode("utf-8", "surrogatepass") for key, texts in found.items()}


def _sql(connection: Connection, statement: Select[Any]) -> str:
    """Return the statement as text, for the driver itself: SQLAlchemy's work per row would take longer."""
    return str(statement.compile(connection, compile_kwargs={"literal_binds": True}))


def _digest_of_all(digests: Sequence[bytes]) -> str:
    return _digest(b"".join(digests))


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=_SIZE).hexdigest()
