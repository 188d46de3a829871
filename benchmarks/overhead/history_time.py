"""What it takes to ask a large database for the last 50 values of one metric of one entry on one machine.

Each entry is asked for once, so that nothing of it has been read by this process before; what counts is the median. How
long it takes when the system, too, has forgotten the file is told beside it: that is the disk.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median

from pytest_process import parser_with, write_results
from recorded_runs import ENTRIES, MATRIX, METRIC, entry_name, machine
from sqlalchemy import Connection, and_, func, select

from curator_bench.store.database import Database, database_url, open_for_reading
from curator_bench.store.queries import last_values, runs_in_order
from curator_bench.store.tables import RUNS

LAST = 50


def asked(connection: Connection, number: int) -> tuple[float, int]:
    """Milliseconds, and how many values there were."""
    of_entry = and_(RUNS.c.name == entry_name(number), RUNS.c.path == MATRIX, RUNS.c.machine_id == machine(0))
    start = time.perf_counter()
    runs = [(moment, row.id) for moment, row in runs_in_order(connection, of_entry)]
    found = last_values(connection, METRIC, runs, LAST)
    return 1000 * (time.perf_counter() - start), len(found)


def opened(path: Path) -> Database:
    database = open_for_reading(database_url(path))
    assert database, f"there is no database at {path}"
    return database


def times_of_all(path: Path) -> tuple[list[float], list[int]]:
    with opened(path) as database, database.reading() as connection:
        asked(connection, -1)  # has everything compiled
        times, counts = zip(*(asked(connection, number) for number in range(ENTRIES)), strict=True)
        return list(times), list(counts)


def time_from_disk(path: Path, number: int) -> float:
    """The system is asked to forget the file; where it does not do so, this is as quick as any other."""
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with opened(path) as database, database.reading() as connection:
        return asked(connection, number)[0]


def main() -> None:
    parser = parser_with(__doc__)
    parser.add_argument("--database", type=Path, required=True)
    options = parser.parse_args()
    from_disk = [time_from_disk(options.database, number) for number in range(0, ENTRIES, ENTRIES // 10)]
    times, counts = times_of_all(options.database)
    with opened(options.database) as database, database.reading() as connection:
        runs = connection.scalar(select(func.count()).select_from(RUNS))
    write_results(
        options,
        {
            "runs": runs,
            "fewest_values": min(counts),
            "query_ms": median(times),
            "slowest_query_ms": max(times),
            "query_from_disk_ms": median(from_disk),
        },
    )


if __name__ == "__main__":
    main()
