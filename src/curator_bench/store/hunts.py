"""Results of bisecting and A/B comparisons. All runs of one subject are in one session, which is named after both."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, or_, select

from curator_bench.store.queries import EntryKey
from curator_bench.store.scalars import scalar_of
from curator_bench.store.series import SERIES
from curator_bench.store.tables import INVOCATIONS, METRICS, RUNS, SESSIONS
from curator_bench.values import Scalar

COLUMNS = ("duration", "average_memory", "peak_memory", "compute_time")
"""Columns of a run that are metrics of a Python benchmark."""
_NAMES = (RUNS.c.name, RUNS.c.originalname, RUNS.c.nodeid)


@dataclass(frozen=True, slots=True)
class HuntedRun:
    entry: EntryKey
    verdict: str
    error: str | None
    series_hash: str | None
    machine_id: str | None
    metrics: dict[str, Scalar]


def hunted_runs(connection: Connection, session: str, named: str | None = None) -> list[HuntedRun]:
    """Read the session's ended runs, oldest first; with `named`, only those of the entry with that name or node id."""
    statement: Select[Any] = (
        select(
            RUNS.c.id,
            *(RUNS.c[name] for name in ("name", "path", "originalname", "verdict", "error")),
            *(SERIES, RUNS.c.machine_id, RUNS.c.command),
            *(RUNS.c[name] for name in COLUMNS),
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
        statement = statement.where(_is_named(named))
    runs: dict[int, HuntedRun] = {}
    for row in connection.execute(statement):
        run = runs.setdefault(row.id, _run(row))
        if row.metric is not None:
            run.metrics[row.metric] = scalar_of(row.value, row.text)
    return list(runs.values())


def hunted_uids(connection: Connection, session: str, named: str) -> list[str]:
    """Return the uids of the session's runs of the entry with this name or node id, oldest first."""
    chosen = select(RUNS.c.uid).join(SESSIONS, SESSIONS.c.id == RUNS.c.session)
    of_entry = chosen.where(SESSIONS.c.name == session, _is_named(named))
    return list(connection.scalars(of_entry.order_by(RUNS.c.start, RUNS.c.id)))


def _is_named(named: str) -> ColumnElement[bool]:
    name = named.rpartition("::")[2]
    return or_(RUNS.c.name == name, RUNS.c.originalname == name, RUNS.c.nodeid == named)


def newest_run(connection: Connection, sessions: Collection[int], named: str) -> int | None:
    """Return the id of the newest ended run of the entry in these sessions."""
    is_of_entry = and_(RUNS.c.session.in_(sessions), RUNS.c.end.is_not(None), _is_named(named))
    statement = select(RUNS.c.id).where(is_of_entry).order_by(RUNS.c.start.desc(), RUNS.c.id.desc()).limit(1)
    found: int | None = connection.scalar(statement)
    return found


def _run(row: Row[Any]) -> HuntedRun:
    """Convert a row.

    Fixtures write what they measure of a Python benchmark into columns; a script has it among its metrics.
    """
    key = EntryKey(row.name, row.path, row.originalname)
    columns = {name: value for name in COLUMNS if (value := getattr(row, name)) is not None}
    is_script = row.command is not None
    return HuntedRun(key, row.verdict, row.error, row.series_hash, row.machine_id, {} if is_script else columns)


def hunts_of(connection: Connection, prefix: str) -> list[str]:
    """Names of the sessions that begin with the prefix."""
    statement = select(SESSIONS.c.name).distinct().where(SESSIONS.c.name.startswith(prefix, autoescape=True))
    return sorted(connection.scalars(statement))


def ended_in_order(connection: Connection, prefix: str, exit_codes: Collection[int]) -> set[str]:
    """Names of sessions with the prefix that have an invocation with one of these exit codes."""
    statement = (
        select(SESSIONS.c.name)
        .join(INVOCATIONS, INVOCATIONS.c.session == SESSIONS.c.id)
        .where(SESSIONS.c.name.startswith(prefix, autoescape=True), INVOCATIONS.c.exit_status.in_(exit_codes))
    )
    return set(connection.scalars(statement))


def recorded_names(connection: Connection) -> set[str]:
    """Names of recorded entries: ids, common names and node ids."""
    found = connection.execute(select(*_NAMES).distinct())
    return {name for names in found for name in names if name}


def recorded_metrics(connection: Connection, named: str) -> list[str]:
    """Names of the metrics that runs of the entry with this name have measured."""
    of_entry = select(RUNS.c.id).where(or_(*(column == named for column in _NAMES)))
    return sorted(connection.scalars(select(METRICS.c.name).where(METRICS.c.run.in_(of_entry)).distinct()))
