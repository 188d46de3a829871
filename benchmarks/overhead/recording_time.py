"""What recording one run of 50 metrics takes over the same two transactions by hand, with sqlite3.

Both write to the same disk, each into a file of its own that our migrations made, with a write-ahead log that reaches
the disk at every commit. They take turns; what counts is the ratio of the medians.
"""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from pytest_process import parser_with, write_results

from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.recorder import Recorder
from curator_bench.store.records import Figures, InvocationRecord, RunEnd, RunStart, SessionRecord
from curator_bench.values import Scalar, Verdict

METRICS: dict[str, Scalar] = {f"task_stage_{number}_process_time_mean": number / 7 for number in range(50)}
NAME, ORIGINAL, MATRIX = "removal[ray_data-dense]", "removal", "benchmarks/dedup/matrix.yaml"
COMMAND = "python removal_benchmark.py --input-path data/cleaned_cc --executor ray_data --attention dense"
START = """INSERT INTO test_run (uid, session, invocation, name, originalname, path, nodeid, attempt, verdict, host,
machine_id, boot_id, pid, process_start, heartbeat_at, start, python_version, platform) VALUES (?, 1, 1, ?, ?, ?, ?, 1,
'running', 'here', 'a-machine', 'a-boot', 4711, 1234.5, ?, ?, '3.11.7', 'linux')"""
END = """UPDATE test_run SET verdict = 'passed', "end" = ?, heartbeat_at = ?, duration = 12.5, exit_code = 0,
command = ?, average_memory = 1.5e9, peak_memory = 2.5e9, ray_version = '2.60.0' WHERE id = ?"""
METRIC = "INSERT INTO metric (run, name, value) VALUES (?, ?, ?)"


def by_recorder(path: Path) -> Callable[[], None]:
    """A function that records a run as pytest does."""
    session = SessionRecord("by_recorder", str(path.parent))
    invocation = InvocationRecord("an-invocation", datetime.now(UTC))
    recorder = Recorder(open_for_writing(database_url(path)), session, invocation)
    figures = Figures(average_memory=1.5e9, peak_memory=2.5e9, ray_version="2.60.0")
    where: dict[str, Any] = {"host": "here", "machine_id": "a-machine", "boot_id": "a-boot", "python_version": "3.11.7"}

    def record() -> None:
        start = RunStart(
            NAME,
            MATRIX,
            datetime.now(UTC),
            originalname=ORIGINAL,
            nodeid=f"{MATRIX}::{NAME}",
            pid=4711,
            process_start=1234.5,
            platform="linux",
            **where,
        )
        uid = recorder.start_run(start)
        end = datetime.now(UTC)
        recorder.finish_run(
            uid, RunEnd(Verdict.PASSED, end, 12.5, exit_code=0, command=COMMAND, figures=figures, metrics=METRICS)
        )

    return record


def by_hand(path: Path) -> Callable[[], None]:
    """A function that makes the same rows with nothing but sqlite3."""
    open_for_writing(database_url(path)).close()
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("INSERT INTO bench_session (uid, name, results_directory) VALUES ('s', 'by_hand', '')")
    connection.execute("INSERT INTO invocation (uid, session, start) VALUES ('i', 1, '2026-01-23 14:30:00')")

    def record() -> None:
        now = str(datetime.now(UTC).replace(tzinfo=None))
        connection.execute("BEGIN IMMEDIATE")
        started = connection.execute(START, (uuid.uuid4().hex, NAME, ORIGINAL, MATRIX, f"{MATRIX}::{NAME}", now, now))
        run = started.lastrowid
        connection.execute("COMMIT")
        now = str(datetime.now(UTC).replace(tzinfo=None))
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(END, (now, now, COMMAND, run))
        connection.executemany(METRIC, [(run, name, value) for name, value in METRICS.items()])
        connection.execute("COMMIT")

    return record


def seconds(record: Callable[[], None]) -> float:
    start = time.perf_counter()
    record()
    return time.perf_counter() - start


def rows(path: Path) -> int:
    """How many runs are there with all of their metrics."""
    whole = "SELECT run FROM metric GROUP BY run HAVING count(*) = 50"
    found = sqlite3.connect(path).execute(f"SELECT count(*) FROM test_run WHERE verdict = 'passed' AND id IN ({whole})")
    return int(found.fetchone()[0])


def main() -> None:
    parser = parser_with(__doc__)
    parser.add_argument("--pairs", type=int, required=True)
    options = parser.parse_args()
    folder: Path = options.scratch.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    ours, theirs = folder / "by_recorder.db", folder / "by_hand.db"
    recorder, hand = by_recorder(ours), by_hand(theirs)
    recorder(), hand()  # has everything compiled
    pairs = [(seconds(recorder), seconds(hand)) for _ in range(options.pairs)]
    recorder_ms, hand_ms = (1000 * median(times) for times in zip(*pairs, strict=True))
    write_results(
        options,
        {
            "rows_by_recorder": rows(ours) - 1,
            "rows_by_hand": rows(theirs) - 1,
            "recorder_ms": recorder_ms,
            "by_hand_ms": hand_ms,
            "recording_ratio": recorder_ms / hand_ms,
        },
    )


if __name__ == "__main__":
    main()
