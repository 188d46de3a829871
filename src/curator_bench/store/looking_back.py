"""What a run that has just ended is held against: the values of its entry before, read when there is a database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection, func, select

from curator_bench.store.acceptances import acceptances
from curator_bench.store.opening import to_read_if_there
from curator_bench.store.queries import EntryKey, PastValue, last_values
from curator_bench.store.tables import RUNS
from curator_bench.values import Verdict

MEASURED = (str(Verdict.PASSED), str(Verdict.FAILED))
"""Runs of these verdicts ended well; what they measured counts, whatever was required of it."""


@dataclass(frozen=True, slots=True)
class LookedBack:
    """By metric the values on this machine, oldest first; by machine and definition how many runs there are."""

    values: Mapping[str, Sequence[PastValue]] = field(default_factory=dict)
    kinds: Mapping[tuple[str | None, str | None], int] = field(default_factory=dict)
    level_since: Mapping[str, datetime] = field(default_factory=dict)
    """Where a shift of the metric was accepted: when its present level began."""


def look_back(named: str, entry: EntryKey, metrics: Sequence[str], machine_id: str | None, *, last: int) -> LookedBack:
    """Nothing where there is no database. Raises BenchError where it cannot be read."""
    with to_read_if_there(named) as database:
        if database is None:
            return LookedBack()
        with database.reading() as connection:
            values = {metric: last_values(connection, entry, metric, machine_id, last, MEASURED) for metric in metrics}
            accepted = {one.metric: one.since for one in acceptances(connection, entry)}
            return LookedBack(values, _kinds(connection, entry), accepted)


def _kinds(connection: Connection, entry: EntryKey) -> Counter[tuple[str | None, str | None]]:
    counted = (
        select(RUNS.c.machine_id, RUNS.c.definition_hash, func.count())
        .where(RUNS.c.name == entry.name, RUNS.c.path == entry.path, RUNS.c.verdict.in_(MEASURED))
        .group_by(RUNS.c.machine_id, RUNS.c.definition_hash)
    )
    return Counter({(machine, definition): count for machine, definition, count in connection.execute(counted)})
