"""Accepted regressions and drift. A metric is compared with its level since the acceptance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import Connection, insert, select

from curator_bench.store.queries import EntryKey
from curator_bench.store.tables import ACCEPTANCES


@dataclass(frozen=True, slots=True)
class Accepted:
    """One acceptance.

    `since` is the start of the first run at the new level. Changes that began up to `until` are closed. `until` is the
    start of the newest run at the time of accepting. If a later change was open then and not accepted, it is the moment
    before that change.
    """

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
    """Acceptances of one entry, or of all entries, oldest first."""
    columns = [ACCEPTANCES.c[name] for name in Accepted.__slots__]
    statement = select(*columns).order_by(ACCEPTANCES.c.at, ACCEPTANCES.c.id)
    if entry is not None:
        statement = statement.where(ACCEPTANCES.c.name == entry.name, ACCEPTANCES.c.path == entry.path)
    return [Accepted(*row) for row in connection.execute(statement)]
