"""The earlier values that a gate compares a run with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection, func, select

from curator_bench.store.acceptances import acceptances
from curator_bench.store.opening import to_read_if_there
from curator_bench.store.queries import EntryKey, PastValue, last_values
from curator_bench.store.tables import IS_HISTORY, RUNS
from curator_bench.values import Verdict

MEASURED = (str(Verdict.PASSED), str(Verdict.FAILED))
"""Verdicts of runs whose numbers count: the run completed, whether or not its requirements were met."""


@dataclass(frozen=True, slots=True)
class GateHistory:
    """Earlier runs of one entry: values by metric on this machine, and counts by machine and definition."""

    values: Mapping[str, Sequence[PastValue]] = field(default_factory=dict)
    kinds: Mapping[tuple[str | None, str | None], int] = field(default_factory=dict)
    level_since: Mapping[str, datetime] = field(default_factory=dict)
    """Start of the present level, by metric, where a change was accepted."""


def read_gate_history(
    named: str, entry: EntryKey, metrics: Sequence[str], machine_id: str | None, *, last: int
) -> GateHistory:
    """Read the history; empty if there is no database. Raises BenchError if it cannot be read."""
    with to_read_if_there(named) as database:
        if database is None:
            return GateHistory()
        with database.reading() as connection:
            values = {metric: last_values(connection, entry, metric, machine_id, last, MEASURED) for metric in metrics}
            accepted = {one.metric: one.since for one in acceptances(connection, entry)}
            return GateHistory(values, _kinds(connection, entry), accepted)


def _kinds(connection: Connection, entry: EntryKey) -> Counter[tuple[str | None, str | None]]:
    counted = (
        select(RUNS.c.machine_id, RUNS.c.definition_hash, func.count())
        .where(RUNS.c.name == entry.name, RUNS.c.path == entry.path, IS_HISTORY, RUNS.c.verdict.in_(MEASURED))
        .group_by(RUNS.c.machine_id, RUNS.c.definition_hash)
    )
    return Counter({(machine, definition): count for machine, definition, count in connection.execute(counted)})
