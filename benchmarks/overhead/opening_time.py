"""What opening a database takes over importing SQLAlchemy, in a process that has done neither.

Each process measures itself, from before its first import. The two kinds take turns, and what counts is the difference
of the quickest: whatever else runs on the machine only adds. The database is up to date, and runs whose process is gone
are looked for, as at the start of a session.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pytest_process import parser_with, run, write_results

from curator_bench.store.database import database_url, open_for_writing

TIMED = """
import json, sys, time
wall, cpu = time.perf_counter(), time.process_time()
{work}
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
alembic = sum(name.partition(".")[0] == "alembic" for name in sys.modules)
print(json.dumps({{"wall_ms": 1000 * wall, "cpu_ms": 1000 * cpu, "alembic_modules": alembic}}))
"""
IMPORTING = "import sqlalchemy"
OPENING = """
from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.dead_runs import Here
open_for_writing(database_url(sys.argv[1]), here=Here("here", "a-boot", lambda pid: None))
"""


def timed(work: str, database: Path) -> dict[str, Any]:
    took = run([sys.executable, "-c", TIMED.format(work=work), str(database)], database.parent)
    found: dict[str, Any] = json.loads(took.output)
    return found


def main() -> None:
    parser = parser_with(__doc__)
    parser.add_argument("--pairs", type=int, required=True)
    options = parser.parse_args()
    database: Path = options.scratch.resolve() / "project" / "benchmark.db"
    open_for_writing(database_url(database)).close()
    for work in (IMPORTING, OPENING):
        timed(work, database)  # has everything compiled
    importing, opening = zip(
        *((timed(IMPORTING, database), timed(OPENING, database)) for _ in range(options.pairs)), strict=True
    )

    def added(what: str) -> float:
        quickest: list[float] = [min(one[what] for one in ones) for ones in (opening, importing)]
        return quickest[0] - quickest[1]

    write_results(
        options,
        {
            "alembic_modules": max(one["alembic_modules"] for one in opening),
            "opening_ms": added("wall_ms"),
            "opening_cpu_ms": added("cpu_ms"),
            "importing_sqlalchemy_ms": min(one["wall_ms"] for one in importing),
        },
    )


if __name__ == "__main__":
    main()
