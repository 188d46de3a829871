"""Regressions and drift that somebody has accepted: a metric is compared with its level since then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import Connection, insert, select

from curator_bench.store.queries import EntryKey
from curator_bench.store.tables import ACCEPTANCES


@dataclass(frozen=True, slots=True)
class Accepted:
    """One acceptance. `since` is the start of the first run of the new level, `until` that of the newest one then."""

    name: str
    path: str
    metric: str
    since: datetime
    until: datetime
    at: datetime
    why: str


def accept(connection: Connection, accepted: Sequence[Accepted]) -> None:
    if accepted:
        connection.execute(insert(ACCEPTANCES), [asdict(one) for one in accepted])


def acceptances(connection: Connection, entry: EntryKey | None = None) -> list[Accepted]:
    """Of one entry or of all, the oldest first."""
    columns = [ACCEPTANCES.c[name] for name in Accepted.__slots__]
    statement = select(*columns).order_by(ACCEPTANCES.c.at, ACCEPTANCES.c.id)
    if entry is not None:
        statement = statement.where(ACCEPTANCES.c.name == entry.name, ACCEPTANCES.c.path == entry.path)
    return [Accepted(*row) for row in connection.execute(statement)]
