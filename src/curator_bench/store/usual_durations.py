"""Usual durations of runs, for estimates of the time left and for jobs that take equally long."""

from __future__ import annotations

from statistics import median

from sqlalchemy import select

from curator_bench.store.database import database_url, open_for_reading
from curator_bench.store.tables import RUNS
from curator_bench.values import Verdict

_LOOKED_AT = 5000
_COUNTED = 5
_NEWEST = (
    select(*(RUNS.c[name] for name in ("path", "name", "definition_hash", "duration", "start", "end")))
    .where(RUNS.c.verdict == Verdict.PASSED, RUNS.c.hunt.is_(None), RUNS.c.duration.is_not(None))
    .order_by(RUNS.c.start.desc())
    .limit(_LOOKED_AT)
)


def usual_durations(named: str) -> dict[str, dict[str | None, float]]:
    """Usual seconds by `PATH::NAME` and definition hash, newest first; empty if there is no database.

    Each is the median of the last few runs that passed, with what was done around their measured time.
    """
    database = open_for_reading(database_url(named))
    if database is None:
        return {}
    found: dict[str, dict[str | None, list[float]]] = {}
    with database, database.reading() as connection:
        for path, name, definition, measured, start, end in connection.execute(_NEWEST):
            durations = found.setdefault(f"{path}::{name}", {}).setdefault(definition, [])
            if len(durations) < _COUNTED:
                durations.append(max(measured, (end - start).total_seconds() if end else 0.0))
    return {key: {each: median(took) for each, took in by.items()} for key, by in found.items()}
