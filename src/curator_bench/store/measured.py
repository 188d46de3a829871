"""What was measured in some sessions, by entry, metric and kind of run; for comparing two of anything."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, Connection, or_, select

from curator_bench.errors import BenchError
from curator_bench.store.gate_history import MEASURED
from curator_bench.store.queries import nearest
from curator_bench.store.tables import METRICS, RUNS, SESSIONS

_NAMES = select(METRICS.c.name).distinct()
_SHORTEST = 6
"""Of a uid or a commit so many letters tell which is meant."""


class Kind(NamedTuple):
    """Runs of one kind compare."""

    machine_id: str | None
    definition_hash: str | None


class Measure(NamedTuple):
    """One metric of one entry."""

    name: str
    path: str
    metric: str


Measured: TypeAlias = dict[Measure, dict[Kind, list[tuple[int, float]]]]
"""The values by kind with the session of each, oldest first."""


def sessions_meant(connection: Connection, named: str) -> list[int]:
    """The sessions of this name, uid, branch or commit. Raises BenchError where there is none."""
    for condition in (SESSIONS.c.name == named, SESSIONS.c.branch == named, _begins(named)):
        found = connection.scalars(select(SESSIONS.c.id).where(condition).order_by(SESSIONS.c.id)).all()
        if found:
            return list(found)
    known = connection.execute(select(SESSIONS.c.name, SESSIONS.c.branch).distinct())
    names = {name for row in known for name in row if name}
    raise BenchError(f"no session, branch or commit {named!r} is recorded{nearest(named, names)}")


def _begins(named: str) -> ColumnElement[bool]:
    exact = [SESSIONS.c.uid == named, SESSIONS.c.commit == named]
    if len(named) >= _SHORTEST:
        exact += [column.startswith(named, autoescape=True) for column in (SESSIONS.c.uid, SESSIONS.c.commit)]
    return or_(*exact)


def measured(connection: Connection, metric: str | None = None, sessions: Collection[int] | None = None) -> Measured:
    """In these sessions, or in all. Raises BenchError for a metric that nothing has measured."""
    columns = (RUNS.c.name, RUNS.c.path, METRICS.c.name, RUNS.c.machine_id, RUNS.c.definition_hash)
    statement = (
        select(*columns, RUNS.c.session, METRICS.c.value)
        .join(METRICS, METRICS.c.run == RUNS.c.id)
        .where(RUNS.c.verdict.in_(MEASURED), METRICS.c.value.is_not(None), METRICS.c.text.is_(None))
        .order_by(RUNS.c.start, RUNS.c.id)
    )
    if metric is not None:
        statement = statement.where(METRICS.c.name == metric)
    if sessions is not None:
        statement = statement.where(RUNS.c.session.in_(sessions))
    found: Measured = defaultdict(lambda: defaultdict(list))
    for name, path, of, machine, definition, session, value in connection.execute(statement):
        found[Measure(name, path, of)][Kind(machine, definition or None)].append((session, value))
    if metric is not None and not found:
        raise BenchError(f"no run has measured {metric!r}{nearest(metric, connection.scalars(_NAMES))}")
    return found
