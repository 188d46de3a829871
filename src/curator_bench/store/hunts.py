"""What a hunt has measured: all of one subject is in one session, whose name says which hunt and subject."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, and_, or_, select

from curator_bench.store.queries import EntryKey
from curator_bench.store.scalars import scalar_of
from curator_bench.store.tables import METRICS, RUNS, SESSIONS
from curator_bench.values import Scalar


@dataclass(frozen=True, slots=True)
class HuntedRun:
    entry: EntryKey
    verdict: str
    error: str | None
    definition_hash: str | None
    machine_id: str | None
    metrics: dict[str, Scalar]


def hunted_runs(connection: Connection, session: str, named: str | None = None) -> list[HuntedRun]:
    """All ended runs of the session, of this entry (by id, by name, or by node id), oldest first."""
    statement = (
        select(
            RUNS.c.id,
            *(RUNS.c[name] for name in ("name", "path", "originalname", "verdict", "error")),
            *(RUNS.c[name] for name in ("definition_hash", "machine_id")),
            METRICS.c.name.label("metric"),
            METRICS.c.value,
            METRICS.c.text,
        )
        .join(SESSIONS, SESSIONS.c.id == RUNS.c.session)
        .join(METRICS, METRICS.c.run == RUNS.c.id, isouter=True)
        .where(and_(SESSIONS.c.name == session, RUNS.c.end.is_not(None)))
        .order_by(RUNS.c.start, RUNS.c.id)
    )
    if named is not None:
        name = named.rpartition("::")[2]
        statement = statement.where(or_(RUNS.c.name == name, RUNS.c.originalname == name, RUNS.c.nodeid == named))
    runs: dict[int, HuntedRun] = {}
    for id_, name, path, original, verdict, error, definition, machine, metric, value, text in connection.execute(
        statement
    ):
        key = EntryKey(name, path, original)
        run = runs.setdefault(id_, HuntedRun(key, verdict, error, definition, machine, {}))
        if metric is not None:
            run.metrics[metric] = scalar_of(value, text)
    return list(runs.values())


def hunts_of(connection: Connection, prefix: str) -> list[str]:
    """The names of the sessions that begin so."""
    statement = select(SESSIONS.c.name).distinct().where(SESSIONS.c.name.startswith(prefix, autoescape=True))
    return sorted(connection.scalars(statement))
