"""Queries to explain the times of runs, beside their stages: which runs count, and the CPUs of their clusters."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, and_, select, true

from curator_bench.store import queries
from curator_bench.store.gate_history import MEASURED
from curator_bench.store.queries import EntryKey, PastRun
from curator_bench.store.tables import RUNS


def measured_runs(
    connection: Connection,
    entry: EntryKey,
    scope: ColumnElement[bool],
    sessions: Collection[int] | None = None,
) -> list[PastRun]:
    """Read the runs of an entry in scope whose numbers count, in order; only those of some sessions, if given.

    Runs of bisects and A/B comparisons are read only if there are no others.
    """
    of_sessions = true() if sessions is None else RUNS.c.session.in_(sessions)
    among = and_(scope, of_sessions)
    for hunts in (False, True):
        found = queries.history(connection, entry, hunts=hunts, among=among)
        if runs := [run for run in found if run.verdict in MEASURED]:
            return runs
    return []


def ids_of(connection: Connection, uids: Collection[str]) -> dict[str, int]:
    """Return the ids of the rows of these runs. Meant for some hundred."""
    found = connection.execute(select(RUNS.c.uid, RUNS.c.id).where(RUNS.c.uid.in_(uids)))
    return {row.uid: row.id for row in found}


def cpus_of(connection: Connection, uids: Collection[str]) -> dict[str, float]:
    """Return the CPUs of the Ray clusters of these runs, as far as recorded. Meant for some hundred."""
    columns = RUNS.c.uid, RUNS.c.ray_num_cpus
    found = connection.execute(select(*columns).where(RUNS.c.uid.in_(uids), RUNS.c.ray_num_cpus.is_not(None)))
    return {row.uid: row.ray_num_cpus for row in found}
