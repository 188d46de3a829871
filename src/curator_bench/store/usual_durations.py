"""Usual durations of runs, for estimates of the time left."""

from __future__ import annotations

from statistics import median

from sqlalchemy import text

from curator_bench.store.database import database_url, open_for_reading

_LOOKED_AT = 5000
_COUNTED = 5
_NEWEST = text(
    "SELECT path, name, definition_hash, duration FROM test_run"
    " WHERE verdict = 'passed' AND hunt IS NULL AND duration IS NOT NULL ORDER BY start DESC LIMIT :most"
)


def usual_durations(named: str) -> dict[str, dict[str | None, float]]:
    """Usual seconds by `PATH::NAME` and definition hash, newest first; empty if there is no database.

    Each is the median of the last few runs that passed.
    """
    database = open_for_reading(database_url(named))
    if database is None:
        return {}
    found: dict[str, dict[str | None, list[float]]] = {}
    with database, database.reading() as connection:
        for path, name, definition, seconds in connection.execute(_NEWEST, {"most": _LOOKED_AT}):
            durations = found.setdefault(f"{path}::{name}", {}).setdefault(definition, [])
            if len(durations) < _COUNTED:
                durations.append(seconds)
    return {key: {each: median(took) for each, took in by.items()} for key, by in found.items()}
