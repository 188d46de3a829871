"""Makes a database of as many runs as it is told, with 20 metrics each: what a team has after some years.

200 entries take turns, on three machines: every few hours a session in which each was run once. Always the same runs.
"""

from __future__ import annotations

import argparse
import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from curator_bench.store import bulk
from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.tables import METRICS, RUNS, SESSIONS

FILE_NAME = "benchmark.db"
ENTRIES, MACHINES, METRICS_OF_A_RUN = 200, 3, 20
MATRIX = "benchmarks/dedup/matrix.yaml"
METRIC = "throughput_docs_per_sec"
NAMES = sorted([METRIC, *(f"task_stage_{number}_process_time_mean" for number in range(1, METRICS_OF_A_RUN))])
BEGAN = datetime(2016, 1, 1, tzinfo=UTC)
_AT_ONCE = 50 * ENTRIES


def entry_name(number: int) -> str:
    return f"removal_{number}[ray_data-dense]"


def machine(number: int) -> str:
    return f"machine-{number}"


def _uid(numbers: random.Random) -> str:
    return uuid.UUID(int=numbers.getrandbits(128)).hex


def _session(number: int, numbers: random.Random) -> dict[str, Any]:
    return {
        "id": number + 1,
        "uid": _uid(numbers),
        "name": f"nightly_{number}",
        "results_directory": "/srv/results",
        "reason": "nightly",
        "commit": f"{numbers.getrandbits(160):040x}",
        "dirty": False,
        "branch": "main",
    }


def _run(number: int, numbers: random.Random) -> dict[str, Any]:
    session, entry = divmod(number, ENTRIES)
    name, start = entry_name(entry), BEGAN + timedelta(minutes=number)
    return {
        "id": number + 1,
        "uid": _uid(numbers),
        "session": session + 1,
        "name": name,
        "originalname": name.partition("[")[0],
        "path": MATRIX,
        "nodeid": f"{MATRIX}::{name}",
        "definition_hash": f"{entry:016x}",
        "attempt": 1,
        "verdict": "passed",
        "host": f"host-{session % MACHINES}",
        "machine_id": machine(session % MACHINES),
        "start": start,
        "end": start + timedelta(seconds=55),
        "duration": 55.0,
        "exit_code": 0,
        "command": f"python removal_benchmark.py --input-path /data/cleaned_cc --executor ray_data --number {entry}",
        "log_path": f"/srv/results/nightly_{session}/removal_{entry}/ray_data/dense/logs/stdouterr.log",
        "python_version": "3.11.7",
        "platform": "linux",
        "ray_version": "2.60.0",
        "average_memory": 1.5e9,
        "peak_memory": 2.5e9,
    }


def _metrics(runs: range, numbers: random.Random) -> Iterator[tuple[Any, ...]]:
    return ((run + 1, name, 100 + numbers.random(), None) for run in runs for name in NAMES)


def make(path: Path, runs: int) -> None:
    """Whole sessions only, but for the last."""
    numbers = random.Random(runs)
    with open_for_writing(database_url(path)) as database:
        for first in range(0, runs, _AT_ONCE):
            some = range(first, min(first + _AT_ONCE, runs))
            sessions = range(some.start // ENTRIES, (some.stop - 1) // ENTRIES + 1)
            with database.writing() as connection:
                bulk.write(connection, SESSIONS, [_session(number, numbers) for number in sessions])
                bulk.write(connection, RUNS, [_run(number, numbers) for number in some])
                bulk.write_parts(connection, METRICS, list(_metrics(some, numbers)))


def add_session(path: Path, runs: int) -> None:
    """Add one session to a database that was made with so many runs, in whole sessions."""
    numbers, new = random.Random(runs + 1), range(runs, runs + ENTRIES)
    with open_for_writing(database_url(path)) as database, database.writing() as connection:
        bulk.write(connection, SESSIONS, [_session(runs // ENTRIES, numbers)])
        bulk.write(connection, RUNS, [_run(number, numbers) for number in new])
        bulk.write_parts(connection, METRICS, list(_metrics(new, numbers)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True, help="a folder for the database")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / FILE_NAME
    path.unlink(missing_ok=True)
    make(path, options.runs)
    print(f"{options.runs:,} runs, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
