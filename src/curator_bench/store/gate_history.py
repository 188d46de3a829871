"""The earlier values that a gate compares a run with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, Connection, and_, func, select

from curator_bench.store.acceptances import acceptances
from curator_bench.store.opening import to_read_if_there
from curator_bench.store.queries import EntryKey, PastValue, last_values, runs_in_order
from curator_bench.store.series import SERIES, identities
from curator_bench.store.tables import INVOCATIONS, IS_HISTORY, IS_NO_HUNT, REQUIREMENTS, RUNS
from curator_bench.values import CommitPlace, Verdict

if TYPE_CHECKING:
    from curator_bench.store.all_series import Group

_GATES = ("max_regression", "max_drift")
_RECENT = 20
"""More than are asked for, because some may be of another series."""
MEASURED = (str(Verdict.PASSED), str(Verdict.FAILED))
"""Verdicts of runs whose numbers count: the run completed, whether or not its requirements were met."""


@dataclass(frozen=True, slots=True)
class GateHistory:
    """Earlier runs of one entry: values by metric of its series on this machine, and counts of all runs."""

    values: Mapping[str, Sequence[PastValue]] = field(default_factory=dict)
    kinds: Mapping[tuple[str | None, str | None], int] = field(default_factory=dict)
    """Number of runs by machine and series."""
    level_since: Mapping[str, datetime] = field(default_factory=dict)
    """Start of the present level, by metric, where a change was accepted."""
    disturbed: Sequence[bool | None] = ()
    """Which of the recent runs of the series on this machine were disturbed, oldest first; None if it is not known."""
    identities: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Arguments, datasets and the like of each recorded series."""


@dataclass(frozen=True, slots=True)
class Gated:
    """The runs a gate asks for: those of an entry, its definition and a machine."""

    entry: EntryKey
    machine_id: str | None
    series_hash: str | None
    definition_hash: str | None
    """Runs of this definition are of the series, even if the definition is not recorded yet."""
    place: CommitPlace | None = None
    """Place of the commit that is measured. Runs of later commits are no history of it."""


def read_gate_history(named: str, gated: Gated, metrics: Sequence[str], *, last: int) -> GateHistory:
    """Read the history; empty if there is no database. Raises BenchError if it cannot be read."""
    with to_read_if_there(named) as database:
        if database is None:
            return GateHistory()
        with database.reading() as connection:
            return _history(connection, gated, metrics, last)


def _history(connection: Connection, gated: Gated, metrics: Sequence[str], last: int) -> GateHistory:
    own = {gated.series_hash, gated.definition_hash}
    of_entry = (RUNS.c.name == gated.entry.name, RUNS.c.path == gated.entry.path, RUNS.c.machine_id == gated.machine_id)
    measured = and_(*of_entry, IS_HISTORY, RUNS.c.verdict.in_(MEASURED))
    runs = [(time, row.id) for time, row in runs_in_order(connection, measured, gated.place) if row.series_hash in own]
    values = {metric: last_values(connection, metric, runs, last) for metric in metrics}
    by_level = sorted(acceptances(connection, gated.entry), key=lambda one: one.since)
    accepted = {one.metric: one.since for one in by_level}
    kinds: Counter[tuple[str | None, str | None]] = Counter()
    for (machine, series), count in _kinds(connection, gated.entry).items():
        kinds[machine, gated.series_hash if series in own else series] += count
    return GateHistory(
        values,
        kinds,
        accepted,
        _recently_disturbed(connection, and_(*of_entry, IS_NO_HUNT, RUNS.c.verdict.in_(MEASURED)), own),
        identities(connection, {series for _, series in kinds}),
    )


def _recently_disturbed(
    connection: Connection, measured: ColumnElement[bool], own: Collection[str | None]
) -> list[bool | None]:
    """Return what is known of the newest runs of these series, in the order they were run in."""
    newest = select(RUNS.c.disturbed, SERIES).where(measured).order_by(RUNS.c.start.desc(), RUNS.c.id.desc())
    found = connection.execute(newest.limit(_RECENT)).fetchall()[::-1]
    return [None if text is None else bool(text) for text, series in found if series in own]


def _kinds(connection: Connection, entry: EntryKey) -> Counter[tuple[str | None, str | None]]:
    counted = (
        select(RUNS.c.machine_id, SERIES, func.count())
        .where(RUNS.c.name == entry.name, RUNS.c.path == entry.path, IS_HISTORY, RUNS.c.verdict.in_(MEASURED))
        .group_by(RUNS.c.machine_id, SERIES)
    )
    return Counter({(machine, series): count for machine, series, count in connection.execute(counted)})


def gated_groups(connection: Connection, invocation: str) -> set[Group]:
    """Return the entries whose gates this invocation (given by its uid) asked, each with the machine that ran it."""
    asked = (
        select(RUNS.c.name, RUNS.c.path, RUNS.c.machine_id)
        .join(INVOCATIONS, INVOCATIONS.c.id == RUNS.c.invocation)
        .join(REQUIREMENTS, REQUIREMENTS.c.run == RUNS.c.id)
        .where(INVOCATIONS.c.uid == invocation, REQUIREMENTS.c.bound.in_(_GATES), IS_NO_HUNT)
    )
    return {(name, path, machine) for name, path, machine in connection.execute(asked.distinct())}
