"""How long runs usually take, for whoever waits for one."""

from __future__ import annotations

from statistics import median

from sqlalchemy import text

from curator_bench.store.database import database_url, open_for_reading

_LOOKED_AT = 5000
_COUNTED = 5
_NEWEST = text("SELECT path, name, duration FROM test_run WHERE verdict = 'passed' ORDER BY start DESC LIMIT :most")


def usual_durations(named: str) -> dict[str, float]:
    """Seconds by `PATH::NAME`: the median of the last few runs that passed; nothing where there is no database."""
    database = open_for_reading(database_url(named))
    if database is None:
        return {}
    found: dict[str, list[float]] = {}
    with database, database.reading() as connection:
        for path, name, seconds in connection.execute(_NEWEST, {"most": _LOOKED_AT}):
            durations = found.setdefault(f"{path}::{name}", [])
            if seconds is not None and len(durations) < _COUNTED:
                durations.append(seconds)
    return {key: median(durations) for key, durations in found.items() if durations}
