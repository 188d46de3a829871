"""Export all ended runs, one batch at a time.

`jsonl` has one line per run, which `curator-bench import` reads back. `csv` and `parquet` are tables with one row per
metric of each run; a run without metrics has one row.
"""

from __future__ import annotations

import csv
import io
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from datetime import datetime
from itertools import islice
from typing import IO, Any

from sqlalchemy import ColumnElement, Connection, Row, Table, func, select, true

from curator_bench.errors import MissingExtra
from curator_bench.store import bulk, profiles, stages, unrecorded
from curator_bench.store.backgrounds import Backgrounds
from curator_bench.store.records import Figures, InvocationRecord, RunEnd, RunStart, SessionRecord, StoredRun
from curator_bench.store.running import RUNNING
from curator_bench.store.scalars import scalar_of, value_of
from curator_bench.store.tables import (
    INVOCATIONS,
    METRICS,
    PARAMS,
    PARTS,
    PROFILES,
    REQUIREMENTS,
    RUNS,
    SAMPLES,
    SESSIONS,
    STAGES,
    SUBJECTS,
)
from curator_bench.values import Check, Repeat, Subject, Verdict
from curator_bench.words import csv_cells

Progress = Callable[[int, int], None]
Parts = Mapping[int, list[tuple[Any, ...]]]
"""Parts of runs by run id; the parts themselves omit the id."""

_ALL: ColumnElement[bool] = true()
RUNS_AT_ONCE = 200
ROWS_IN_A_GROUP = 50_000
_SESSION_COLUMNS = ("uid", "name", "reason", "commit", "dirty", "branch")
_RUN_COLUMNS = (
    *("uid", "name", "originalname", "path", "definition_hash", "attempt", "verdict", "host", "machine_id", "node"),
    *("gpu", "start", "end", "duration", "exit_code", "error", "python_version", "platform", "ray_version", "hunt"),
    "disturbed",
)
COLUMNS = (*(f"session_{name}" for name in _SESSION_COLUMNS), *_RUN_COLUMNS, "metric", "value", "text")
"""Columns of the tables. `text` holds metrics that are not numbers."""


def _silent(done: int, total: int) -> None:
    """Tell nobody about the progress."""


def count_runs(connection: Connection, among: ColumnElement[bool] = _ALL) -> tuple[int, int]:
    """Count the runs that have ended, and the running ones, which are not exported. Only those that meet `among`."""
    counted = select(func.count()).select_from(RUNS).where(among)
    total, under_way = connection.scalar(counted), connection.scalar(counted.where(RUNS.c.verdict == RUNNING))
    return (total or 0) - (under_way or 0), under_way or 0


def export_jsonl(
    connection: Connection, out: IO[bytes], progress: Progress = _silent, among: ColumnElement[bool] = _ALL
) -> None:
    for records in ended_runs(connection, progress, among):
        for record in records:
            out.write(unrecorded.line_of(record))


def export_csv(
    connection: Connection, out: IO[bytes], progress: Progress = _silent, among: ColumnElement[bool] = _ALL
) -> None:
    text = io.TextIOWrapper(out, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run, metrics in _table(connection, progress, among):
        shown = csv_cells(value.isoformat() if isinstance(value, datetime) else value for value in run)
        writer.writerows([*shown, *csv_cells(metric)] for metric in metrics)
    text.flush()
    text.detach()


def export_parquet(
    connection: Connection, out: IO[bytes], progress: Progress = _silent, among: ColumnElement[bool] = _ALL
) -> None:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra("export to parquet", "data") from None
    schema = pa.schema([(name, _arrow_type(pa, name)) for name in COLUMNS])
    with parquet.ParquetWriter(out, schema, compression="zstd") as writer:
        rows = (run + metric for run, metrics in _table(connection, progress, among) for metric in metrics)
        while group := list(islice(rows, ROWS_IN_A_GROUP)):
            arrays = [
                pa.array(column, field.type) for column, field in zip(zip(*group, strict=True), schema, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _arrow_type(pa: Any, name: str) -> Any:
    if name in ("start", "end"):
        return pa.timestamp("us", tz="UTC")
    if name in ("value", "duration"):
        return pa.float64()
    if name in ("attempt", "exit_code"):
        return pa.int64()
    return pa.bool_() if name == "session_dirty" else pa.string()


def _table(
    connection: Connection, progress: Progress, among: ColumnElement[bool]
) -> Iterator[tuple[tuple[Any, ...], list[tuple[Any, ...]]]]:
    """Yield the table run by run: the columns all its rows share, and metric, value and text of each row."""
    for runs, sessions in _runs(connection, progress, among):
        metrics = _parts(connection, METRICS, runs)
        for run in runs:
            session, row = sessions[run.session], run._mapping
            same = (*(session[name] for name in _SESSION_COLUMNS), *(row[name] for name in _RUN_COLUMNS))
            yield same, metrics.get(run.id) or [(None, None, None)]


def ended_runs(
    connection: Connection, progress: Progress = _silent, among: ColumnElement[bool] = _ALL
) -> Iterator[list[StoredRun]]:
    """Yield the ended runs in batches, complete."""
    described: set[int] = set()
    backgrounds = Backgrounds(connection)
    for runs, sessions in _runs(connection, progress, among):
        parts = {table: _parts(connection, table, runs) for table in PARTS}
        invocations = _invocations(connection, runs, described)
        records = [
            _record(run, _session(sessions[run.session]), invocations.get(run.invocation), parts) for run in runs
        ]
        yield [replace(one, background=backgrounds.new(one.start)) for one in records]


def _runs(
    connection: Connection, progress: Progress, among: ColumnElement[bool]
) -> Iterator[tuple[list[Row[Any]], Mapping[int, Mapping[str, Any]]]]:
    """Yield batches of ended runs with their sessions."""
    total, _ = count_runs(connection, among)
    done = 0
    for batch in bulk.by_id(connection, RUNS, RUNS_AT_ONCE, among):
        runs = [run for run in batch if run.verdict != RUNNING]
        if runs:
            yield runs, _sessions(connection, {run.session for run in runs})
        done += len(runs)
        progress(done, total)


def _parts(connection: Connection, table: Table, runs: list[Row[Any]]) -> Parts:
    found = defaultdict(list)
    for run, *values in bulk.parts_of(connection, table, [run.id for run in runs]):
        found[run].append(tuple(values))
    return found


def _sessions(connection: Connection, numbers: Iterable[int]) -> Mapping[int, Mapping[str, Any]]:
    """Read the sessions with these ids, with their subjects."""
    found = connection.execute(select(SESSIONS).where(SESSIONS.c.id.in_(numbers)))
    sessions = {row.id: {**row._mapping, "subjects": ()} for row in found}
    for row in connection.execute(select(SUBJECTS).where(SUBJECTS.c.session.in_(sessions)).order_by(SUBJECTS.c.id)):
        sessions[row.session]["subjects"] += (Subject(row.package, row.version, row.commit, row.dirty),)
    return sessions


def _invocations(connection: Connection, runs: list[Row[Any]], described: set[int]) -> Mapping[int, InvocationRecord]:
    """Read the invocations of these runs.

    The environment is long, so it is exported only with the first batch of runs of its invocation.
    """
    numbers = {run.invocation for run in runs if run.invocation is not None}
    names = [field.name for field in fields(InvocationRecord)]
    found: dict[int, InvocationRecord] = {}
    for row in connection.execute(select(INVOCATIONS).where(INVOCATIONS.c.id.in_(numbers))):
        values = {name: row._mapping[name] for name in names}
        found[row.id] = InvocationRecord(**{**values, "environment": None if row.id in described else row.environment})
    described |= numbers
    return found


def _session(row: Mapping[str, Any]) -> SessionRecord:
    branches = row["branches"] if row["branches"] is None else tuple(row["branches"])
    return SessionRecord(**{**{field.name: row[field.name] for field in fields(SessionRecord)}, "branches": branches})


def _record(
    run: Row[Any], session: SessionRecord, invocation: InvocationRecord | None, parts: Mapping[Table, Parts]
) -> StoredRun:
    row = run._mapping
    start = RunStart(**{field.name: row[field.name] for field in fields(RunStart)})
    figures = Figures(**{field.name: row[field.name] for field in fields(Figures)})
    said = {field.name: row[field.name] for field in fields(RunEnd) if field.name in row}
    end = RunEnd(
        **{**said, "verdict": Verdict(run.verdict), "end": run.end or run.start},
        figures=figures,
        metrics={name: scalar_of(value, text) for name, value, text in parts[METRICS].get(run.id, ())},
        params={name: value_of(text) for name, text in parts[PARAMS].get(run.id, ())},
        repeats=_repeats(parts[SAMPLES].get(run.id, ())),
        checks=tuple(
            _check(values) for values in sorted(parts[REQUIREMENTS].get(run.id, ()), key=operator.itemgetter(0))
        ),
        stages=tuple(
            stages.stage_of(values[1:]) for values in sorted(parts[STAGES].get(run.id, ()), key=operator.itemgetter(0))
        ),
        profiles=tuple(profiles.packed_of(values) for values in sorted(parts[PROFILES].get(run.id, ()))),
    )
    return StoredRun(session, invocation, start, end)


def _check(values: tuple[Any, ...]) -> Check:
    _, metric, bound, limit, actual, met, better, note = values
    is_met = None if met is None else bool(met)
    return Check(metric, bound, value_of(limit), value_of(actual), is_met, note=note or "", better=better)


def _repeats(samples: Iterable[tuple[Any, ...]]) -> tuple[Repeat, ...]:
    metrics: dict[int, dict[str, Any]] = defaultdict(dict)
    for repeat, metric, value in samples:
        metrics[repeat][metric] = value
    return tuple(
        Repeat(number, None, metrics[number].get("exec_time_s") or 0.0, metrics[number]) for number in sorted(metrics)
    )
