"""Import runs from files into a database: hundreds per transaction, each run once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import Connection, insert, select

from curator_bench.errors import Mistake
from curator_bench.importing.found_runs import Found, FoundRun
from curator_bench.store import rows
from curator_bench.store.checking import wrong_values
from curator_bench.store.column_types import key
from curator_bench.store.database import Database
from curator_bench.store.rows import Place
from curator_bench.store.running import RUNNING
from curator_bench.store.scalars import scalar_of, value_and_text
from curator_bench.store.tables import METRICS, RUNS, SESSIONS
from curator_bench.values import Verdict

_AT_ONCE = 500
_PATIENCE_S = 60.0
_OPEN = (RUNNING, str(Verdict.INTERRUPTED))
_SLACK = timedelta(seconds=5)


@dataclass(slots=True)
class Imported:
    """Result of an import: runs added, runs completed, runs already known."""

    added: int = 0
    completed: int = 0
    known: int = 0
    mistakes: list[Mistake] = field(default_factory=list)


class _Known(NamedTuple):
    """Row of a run already in the database."""

    id: int
    verdict: str


class Importer:
    """Importer of runs into one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._places: dict[tuple[Any, ...], Place] = {}

    def add(self, found: Iterable[Found]) -> Imported:
        taken = Imported()
        for batch in _in_lists(_without_mistakes(found, taken), _AT_ONCE):
            with self._database.writing(_PATIENCE_S) as connection:
                self._take(connection, batch, taken)
        return taken

    def _take(self, connection: Connection, batch: Iterable[FoundRun], taken: Imported) -> None:
        found = {run.record.start.uid: run for run in batch}
        there = _rows_of(connection, found)
        absent = [run for uid, run in found.items() if uid not in there]
        elsewhere = _recorded_otherwise(connection, [run for run in absent if run.recorded_as])
        fresh = [run for run in absent if run.record.start.uid not in elsewhere]
        self._add(connection, fresh)
        known = [run for uid, run in found.items() if uid in there]
        completed = sum(self._end(connection, run) for run in known if there[run.record.start.uid].verdict in _OPEN)
        completed += _add_metrics(connection, [run for run in known if run.adds], there, taken)
        taken.added += len(fresh)
        taken.completed += completed
        taken.known += len(found) - len(fresh) - completed

    def _add(self, connection: Connection, runs: Sequence[FoundRun]) -> None:
        if not runs:
            return
        records = {run.record.start.uid: run.record for run in runs}
        for record in records.values():
            rows.add_background(connection, record.background)
        values = [rows.values_of(self._place(connection, run), run.record.start, run.record.end) for run in runs]
        connection.execute(insert(RUNS), values)
        parts = defaultdict(list)
        for uid, row in _rows_of(connection, records).items():
            for table, belonging in rows.parts_of(row.id, records[uid].end):
                parts[table].extend(belonging)
        for table, belonging in parts.items():
            if belonging:
                connection.execute(insert(table), belonging)

    def _end(self, connection: Connection, run: FoundRun) -> bool:
        """Complete a run that was running or marked interrupted in the database."""
        return rows.add_or_complete(connection, self._place(connection, run), run.record)

    def _place(self, connection: Connection, run: FoundRun) -> Place:
        session, invocation = run.record.session, run.record.invocation
        known = (session, invocation.uid if invocation else None)
        if known not in self._places:
            joined = rows.join_session(connection, session)
            under = rows.join_invocation(connection, joined, invocation) if invocation else None
            self._places[known] = Place(joined, under)
        return self._places[known]


def _add_metrics(connection: Connection, runs: Sequence[FoundRun], there: Mapping[str, _Known], taken: Imported) -> int:
    """Add the metrics that the database lacks of known runs; return how many runs changed.

    A metric recorded with another value is a mistake.
    """
    recorded = _metrics_of(connection, [there[run.record.start.uid].id for run in runs])
    added: list[dict[str, Any]] = []
    for run in runs:
        number = there[run.record.start.uid].id
        for name, scalar in run.record.end.metrics.items():
            said, before = value_and_text(scalar), recorded[number].get(key(name))
            if before is None:
                added.append({"run": number, "name": name, "value": said[0], "text": said[1]})
            elif before != said:
                problem = f"{name} of {run.record.start.name} is recorded as {scalar_of(*before)}, not as {scalar}"
                taken.mistakes.append(Mistake(run.place, "", problem))
    if added:
        connection.execute(insert(METRICS), added)
    return len({row["run"] for row in added})


def _metrics_of(connection: Connection, runs: Sequence[int]) -> Mapping[int, dict[str, tuple[Any, Any]]]:
    found: dict[int, dict[str, tuple[Any, Any]]] = defaultdict(dict)
    for run, name, value, text in connection.execute(select(METRICS).where(METRICS.c.run.in_(runs))):
        found[run][name] = (value, text)
    return found


def _rows_of(connection: Connection, uids: Iterable[str]) -> dict[str, _Known]:
    found = connection.execute(select(RUNS.c.uid, RUNS.c.id, RUNS.c.verdict).where(RUNS.c.uid.in_(list(uids))))
    return {uid: _Known(number, verdict) for uid, number, verdict in found}


def _recorded_otherwise(connection: Connection, runs: Sequence[FoundRun]) -> set[str]:
    """Uids of runs that were recorded when they ran, under another uid than their files give."""
    if not runs:
        return set()
    columns = (SESSIONS.c.uid, *(RUNS.c[name] for name in ("name", "attempt", "start", "end")))
    recorded = connection.execute(
        select(*columns)
        .join(SESSIONS, SESSIONS.c.id == RUNS.c.session)
        .where(SESSIONS.c.uid.in_({run.record.session.uid for run in runs}))
        .where(RUNS.c.name.in_({run.record.start.name for run in runs}))
    )
    times = defaultdict(list)
    for session, name, attempt, start, end in recorded:
        times[session, name, attempt].append((start, end))
    return {run.record.start.uid for run in runs if _was_under_way(run, times)}


def _was_under_way(run: FoundRun, times: Mapping[tuple[str, str, int], Any]) -> bool:
    start, moment = run.record.start, run.recorded_as
    spans = times.get((run.record.session.uid, start.name, start.attempt), ())
    return moment is not None and any(first <= moment <= (last or moment) + _SLACK for first, last in spans)


def _without_mistakes(found: Iterable[Found], taken: Imported) -> Iterator[FoundRun]:
    for item in found:
        mistakes = [item] if isinstance(item, Mistake) else list(_wrong_in(item))
        taken.mistakes += mistakes
        if not mistakes and isinstance(item, FoundRun):
            yield item


def _wrong_in(found: FoundRun) -> Iterator[Mistake]:
    for problem in wrong_values(found.record):
        yield Mistake(found.place, found.where, problem)
    uid = found.record.start.uid
    if isinstance(uid, str) and key(uid) != uid:
        yield Mistake(found.place, found.where, f"start.uid: found {uid[:60]!r}, expected some letters and digits")


def _in_lists(items: Iterable[FoundRun], size: int) -> Iterator[list[FoundRun]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some
