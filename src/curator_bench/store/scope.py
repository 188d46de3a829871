"""Which runs a question is about: those of a branch, on a kind of machine, since a moment."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, select, true

from curator_bench.errors import BenchError
from curator_bench.store.queries import nearest
from curator_bench.store.run_order import sessions_of_branch
from curator_bench.store.tables import RUNS, SESSIONS


def in_scope(
    connection: Connection, branch: str | None = None, machine: str | None = None, since: datetime | None = None
) -> ColumnElement[bool]:
    """Return the condition that selects the runs of the given branch, machine and time.

    Raises BenchError with the nearest names if nothing is recorded of the branch or the machine.
    """
    began = true() if since is None else RUNS.c.start >= since
    return and_(_of_branch(connection, branch), _on_machine(connection, machine), began)


def sessions_in(connection: Connection, sessions: Collection[int], scope: ColumnElement[bool]) -> set[int]:
    """Return those of these sessions that have a run in scope."""
    return set(connection.scalars(select(RUNS.c.session).where(RUNS.c.session.in_(sessions), scope).distinct()))


def _of_branch(connection: Connection, branch: str | None) -> ColumnElement[bool]:
    if branch is None:
        return true()
    found = sessions_of_branch(connection, branch)
    if not found:
        known = set(connection.scalars(select(SESSIONS.c.branch).where(SESSIONS.c.branch.is_not(None)).distinct()))
        raise BenchError(f"no run of a branch {branch!r} is recorded{nearest(branch, known)}")
    return RUNS.c.session.in_(found)


def _on_machine(connection: Connection, machine: str | None) -> ColumnElement[bool]:
    if machine is None:
        return true()
    known = set(connection.scalars(select(RUNS.c.machine_id).where(RUNS.c.machine_id.is_not(None)).distinct()))
    if machine not in known:
        raise BenchError(f"no run on a machine {machine!r} is recorded{nearest(machine, known)}")
    return RUNS.c.machine_id == machine
