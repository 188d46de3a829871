"""Makes a `benchmark.db` as coiled/benchmarks has it: a session a night, in which each test ran once. Always the same.

The nights are far in the future: the script that is compared leaves out what was not run for a week.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

FILE_NAME = "benchmark.db"
LAST_NIGHT = datetime(2099, 12, 31, 3, tzinfo=UTC)
_TEXTS = (
    *("session_id", "name", "originalname", "path", "setup_outcome", "call_outcome", "teardown_outcome"),
    *("coiled_runtime_version", "coiled_software_name", "dask_version", "distributed_version", "python_version"),
    *("platform", "ci_run_url", "start", "end"),
)
_NUMBERS = (
    *("duration", "average_memory", "peak_memory"),
    *("compute_time", "disk_spill_time", "serializing_time", "transfer_time"),
)
JUDGED = _NUMBERS[:3]
"""What their script looks at; they leave the others empty."""
_REPORTS = ("performance_report_url", "cluster_dump_url")
_SLOWER_BY, _FORM = 1.08, "%Y-%m-%d %H:%M:%S.%f"


def make(path: Path, tests: int, nights: int) -> None:
    """Every tenth test is slower in the second half."""
    random = np.random.default_rng([tests, nights])
    columns = [f"{name} VARCHAR" for name in _TEXTS] + [f"{name} FLOAT" for name in _NUMBERS]
    columns += [f"{name} VARCHAR" for name in _REPORTS]
    marks = ", ".join("?" * (len(columns) + 1))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE test_run (id INTEGER PRIMARY KEY, {', '.join(columns)})")
        connection.executemany(f"INSERT INTO test_run VALUES ({marks})", _rows(random, tests, nights))


def _rows(random: np.random.Generator, tests: int, nights: int) -> Iterator[tuple[Any, ...]]:
    for night in range(nights):
        first = LAST_NIGHT - timedelta(days=nights - 1 - night)
        session = uuid.UUID(int=night).hex
        noise = 1 + 0.03 * random.standard_normal((tests, len(JUDGED)))
        for test in range(tests):
            start, values = first + timedelta(minutes=test), [60.0, 4e9, 9e9] * noise[test]
            values[0] *= _SLOWER_BY if test % 10 == 0 and night >= nights // 2 else 1.0
            name = f"test_shuffle_{test}[parquet-{test % 7}]"
            texts = (session, name, name.partition("[")[0], f"benchmarks/test_{test % 20}.py", *["passed"] * 3)
            versions = ("latest", "software", "2022.12.1", "2022.12.1", "3.9.15", "linux", f"https://ci/{night}")
            times = (f"{moment:{_FORM}}" for moment in (start, start + timedelta(seconds=float(values[0]))))
            empty = [None] * (len(_NUMBERS) - len(JUDGED) + len(_REPORTS))
            yield (None, *texts, *versions, *times, *map(float, values), *empty)
