"""Marks of runs: digests that tell which entries, machines and sessions of the history changed since they were read.

All runs are looked at, but none of their metrics is read, so this takes a second for 100,000 runs.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Select, func, select

from curator_bench.store import bulk
from curator_bench.store.all_series import Group
from curator_bench.store.queries import EntryKey
from curator_bench.store.series import CONTENT, SERIES
from curator_bench.store.tables import (
    ACCEPTANCES,
    INVOCATIONS,
    IS_HISTORY,
    METRICS,
    REQUIREMENTS,
    RUNS,
    SESSIONS,
    SUBJECTS,
)

BLOCK = 32
"""Number of runs that share a mark. Blocks of an entry are in the order of its runs, so a new run changes the last."""
_OF_A_RUN = (
    *("id", "session", "name", "path", "machine_id", "verdict", "originalname", "uid", "definition_hash", "attempt"),
    *("start", "end", "duration", "error", "log_path", "sink_urls", "ci_run_url", "cluster_details_url"),
    "performance_report_url",
)
_BROKEN = frozenset(["failed", "crashed", "timeout", "error", "interrupted"])


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive runs of an entry, by their ids."""

    mark: str
    runs: Sequence[int]


@dataclass(frozen=True, slots=True)
class EntryMarks:
    """What identifies the state of an entry's runs."""

    entry: EntryKey
    mark: str
    blocks: Sequence[Block]
    machines: Mapping[str | None, str]
    """The mark of each machine's runs, in the order machines came."""
    newest_machine: str | None
    broken: Sequence[int]
    """The runs since the last one that was fine."""

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
    """The digests of one entry while its runs are read."""

    common: bytes
    originalname: str = ""
    blocks: list[tuple[Any, list[int]]] = field(default_factory=list)
    machines: dict[str | None, Any] = field(default_factory=dict)
    newest_machine: str | None = None
    broken: list[int] = field(default_factory=list)

    def add(self, run: int, machine: str | None, verdict: str, originalname: str, text: bytes) -> None:
        if not self.blocks or len(self.blocks[-1][1]) == BLOCK:
            self.blocks.append((hashlib.blake2b(digest_size=12), []))
        digest, runs = self.blocks[-1]
        digest.update(text)
        runs.append(run)
        if machine not in self.machines:
            self.machines[machine] = hashlib.blake2b(self.common, digest_size=12)
        self.machines[machine].update(text)
        self.newest_machine, self.originalname = machine, originalname
        if verdict in _BROKEN:
            self.broken.append(run)
        else:
            self.broken.clear()

    def marks(self, name: str, path: str) -> EntryMarks:
        blocks = [Block(digest.hexdigest(), runs) for digest, runs in self.blocks]
        machines = {machine: digest.hexdigest() for machine, digest in self.machines.items()}
        whole = _digest("".join([*(block.mark for block in blocks), *machines.values()]).encode())
        key = EntryKey(name, path, self.originalname)
        return EntryMarks(key, whole, blocks, machines, self.newest_machine, self.broken)


def marks_of(connection: Connection) -> Marks:
    """Read the marks of all entries and sessions."""
    sessions, accepted = _sessions(connection), _accepted(connection)
    found: dict[tuple[str, str], _Gathered] = {}
    ran = {number: hashlib.blake2b(text, digest_size=12) for number, text in sessions.items()}
    for rows in bulk.fetched(connection, _sql(connection, _runs())):
        for row in rows:
            run, session, name, path, machine, verdict, originalname, *_ = row
            gathered = found.get((name, path))
            if gathered is None:
                gathered = found[name, path] = _Gathered(accepted.get((name, path), b""))
            text = repr(row).encode("utf-8", "surrogatepass") + sessions[session]
            gathered.add(run, machine, verdict, originalname, text)
            ran[session].update(text)
    entries = [found[key].marks(*key) for key in sorted(found)]
    return Marks(entries, {number: digest.hexdigest() for number, digest in ran.items()})


def _runs() -> Select[Any]:
    parts = [
        select(func.count()).where(table.c.run == RUNS.c.id).scalar_subquery() for table in (METRICS, REQUIREMENTS)
    ]
    statement = select(*(RUNS.c[name] for name in _OF_A_RUN), SERIES, CONTENT, *parts).where(IS_HISTORY)
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


def _accepted(connection: Connection) -> dict[tuple[str, str], bytes]:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in connection.execute(select(ACCEPTANCES).order_by(ACCEPTANCES.c.id)):
        found[row.name, row.path].append(repr(tuple(row)))
    return {key: "".join(texts).encode("utf-8", "surrogatepass") for key, texts in found.items()}


def _sql(connection: Connection, statement: Select[Any]) -> str:
    """Return the statement as text, for the driver itself: SQLAlchemy's work per row would take longer."""
    return str(statement.compile(connection, compile_kwargs={"literal_binds": True}))


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=12).hexdigest()
