"""Import of `benchmark.db` from coiled/benchmarks, a suite for Dask: table `test_run`, and in later ones `tpch_run`.

Columns with the same names as ours are copied. Other columns become a metric, a param or, for package versions, a
subject of the session.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from curator_bench.errors import BenchError, Mistake
from curator_bench.importing.found_runs import Found, FoundRun, moment_of, stable_uid
from curator_bench.store.records import METRIC_OF_COLUMN, Figures, RunEnd, RunStart, SessionRecord, StoredRun
from curator_bench.values import Place, Scalar, Subject, Verdict

_TABLES = ("test_run", "tpch_run")
_METRICS = {
    # these also have a column of their own, as with the fixtures of curator-bench
    "duration": "exec_time_s",
    **METRIC_OF_COLUMN,
    "scheduler_cpu_avg": "scheduler_cpu_avg",
    "scheduler_memory_max": "scheduler_memory_max_bytes",
    "worker_max_tick": "worker_max_tick_s",
    "scheduler_max_tick": "scheduler_max_tick_s",
}
_FIGURES = (
    *("average_memory", "peak_memory", "compute_time", "disk_spill_time", "serializing_time", "transfer_time"),
    *("cluster_name", "cluster_details_url", "performance_report_url"),
)
_SUBJECTS = {
    "dask_version": "dask",
    "distributed_version": "distributed",
    "dask_expr_version": "dask-expr",
    "coiled_runtime_version": "coiled-runtime",
    "duckdb_version": "duckdb",
    "pyspark_version": "pyspark",
    "polars_version": "polars",
}
_ELSEWHERE = {
    *("id", "session_id", "name", "originalname", "path", "setup_outcome", "call_outcome", "teardown_outcome"),
    *("python_version", "platform", "ci_run_url", "start", "end", "cluster_id"),
    *_METRICS,
    *_FIGURES,
    *_SUBJECTS,
}


def recognizes(path: Path) -> bool:
    """True if the file is a database of coiled/benchmarks. Raises BenchError for one of curator-bench."""
    with _opened(path) as connection:
        if _columns(connection, "bench_session"):
            raise BenchError(
                f"{path} is a database of curator-bench: `curator-bench merge {path} --into …` adds its runs"
            )
        return _columns(connection, "test_run") >= {"id", "session_id", "name", "originalname"}


def read(path: Path) -> Iterator[Found]:
    with _opened(path) as connection:
        connection.row_factory = sqlite3.Row
        for table in _TABLES:
            if _columns(connection, table):
                yield from _runs(path, table, connection.execute(f"SELECT * FROM {table} ORDER BY id"))


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise BenchError(f"{path} cannot be read: {error}") from error


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", [table])}


def _runs(path: Path, table: str, rows: Iterator[sqlite3.Row]) -> Iterator[Found]:
    """Yield the runs of a table. A run that failed early has no time; it gets that of the run before."""
    latest: datetime | None = None
    seen: Counter[str] = Counter()
    for row in rows:
        said = dict(row)
        where = f"{table} {said['id']}"
        try:
            start, end = _moment(said, "start"), _moment(said, "end")
        except ValueError as error:
            yield Mistake(Place(str(path), 0), where, str(error))
            continue
        latest = start or end or latest
        if latest is None:
            yield Mistake(Place(str(path), 0), where, "neither this run nor one before it has a time")
            continue
        content = stable_uid(table, *(said.get(name) for name in ("session_id", "path", "name", "start", "end")))
        seen[content] += 1
        uid = stable_uid("coiled", content, seen[content])
        record = StoredRun(_session(said), None, _start(said, start or latest, uid), _end(said, end or latest))
        yield FoundRun(record, Place(str(path), 0), where)


def _start(said: Mapping[str, Any], start: datetime, uid: str) -> RunStart:
    return RunStart(
        name=said["name"],
        originalname=said["originalname"],
        path=said.get("path") or "",
        start=start,
        uid=uid,
        python_version=said.get("python_version"),
        platform=said.get("platform"),
        ci_run_url=said.get("ci_run_url"),
    )


def _session(said: Mapping[str, Any]) -> SessionRecord:
    name = str(said["session_id"])
    subjects = (Subject(package, said[column]) for column, package in _SUBJECTS.items() if said.get(column))
    return SessionRecord(name, "", stable_uid("coiled", name), subjects=tuple(subjects))


def _end(said: Mapping[str, Any], end: datetime) -> RunEnd:
    cluster = said.get("cluster_id")
    figures = Figures(
        **{name: said.get(name) for name in _FIGURES}, cluster_id=None if cluster is None else str(cluster)
    )
    metrics: dict[str, Scalar] = {ours: said[name] for name, ours in _METRICS.items() if said.get(name) is not None}
    return RunEnd(
        verdict=_verdict(said),
        end=end,
        duration=said.get("duration"),
        setup_outcome=said.get("setup_outcome"),
        call_outcome=said.get("call_outcome"),
        teardown_outcome=said.get("teardown_outcome"),
        figures=figures,
        metrics=metrics,
        params={name: value for name, value in said.items() if name not in _ELSEWHERE and value is not None},
    )


def _verdict(said: Mapping[str, Any]) -> Verdict:
    """Derive the verdict from the outcomes of pytest's phases. A phase that was not reached has none."""
    setup, call = said.get("setup_outcome"), said.get("call_outcome")
    if "skipped" in (setup, call):
        return Verdict.SKIPPED
    if setup == "failed" or (call is None and setup is not None):
        return Verdict.ERROR
    return Verdict.FAILED if call == "failed" else Verdict.PASSED


def _moment(said: Mapping[str, Any], column: str) -> datetime | None:
    value = said.get(column)
    return None if value is None else moment_of(value)
