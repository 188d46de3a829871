"""What is written for other programs is all there is."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from curator_bench.errors import MissingExtra
from curator_bench.importing.formats import format_of
from curator_bench.importing.importer import Imported, Importer
from curator_bench.repeats import combine
from curator_bench.store import exports
from curator_bench.store.database import Database
from curator_bench.store.recorder import Recorder
from curator_bench.store.records import Figures, InvocationRecord, SessionRecord
from curator_bench.values import Check, Repeat, Subject, Verdict

if TYPE_CHECKING:
    from store.conftest import Bench

Content = Callable[[Database], dict[str, Any]]
METRICS: dict[str, Any] = {
    "rate": 0.1,
    "ok": True,
    "nan": math.nan,
    "whole": 12,
    "huge": 2**60 + 1,
    "nothing": None,
    "text": 'comma, "quote"\nline',
    "text_of_a_number": "12",
}


def fill(bench: Bench, database: Database) -> None:
    """Sessions with everything, and a run under way."""
    for number in range(2):
        session = SessionRecord(
            f"night {number}", str(bench.results), f"session-{number}", "because", "abc", True, "main", "http://viewer",
            (Subject("ray", "2.60.0"), Subject("nemo_curator", "1.0", "def", dirty=False)),
        )  # fmt: skip
        invocation = InvocationRecord(
            f"i{number}", bench.moment, "here", {"cores": 2, "a": [None, {"b": 1.5}]}, "http://ci", "pytest x"
        )
        recorder = Recorder(database, session, invocation)
        for name in ("removal[dense]", "grüße \ud800"):
            start = bench.start(
                name, start=bench.moment + timedelta(hours=number), machine_id="m1", pid=1, process_start=0.1, attempt=2
            )
            recorder.start_run(start)
            recorder.finish_run(
                start.uid,
                bench.end(
                    Verdict.FAILED,
                    metrics=METRICS,
                    params={"a": "1", "b": [1], "c": None},
                    figures=Figures(ray_version="2.60", average_memory=1.5, cluster_id="c"),
                    repeats=tuple(Repeat(index, 0, index / 3, {"rate": index / 3}) for index in (1, 2)),
                    checks=(
                        Check("rate", "min_value", 2, 0.1, met=False),
                        Check("x", "max_value", 2, None, met=False, missing=True),
                        Check("rate", "max_regression", 0.1, 0.1, met=None, note="3 runs more would decide"),
                    ),
                    exit_code=3,
                    error="why",
                    log_path="logs/x.log",
                ),
            )
        recorder.finish_run(recorder.start_run(bench.start("bare")), bench.end())
        recorder.finish_invocation(number)
    recorder.start_run(bench.start("under way"))
    assert recorder.problems() == ()


def exported(database: Database, how: Callable[..., None], **more: Any) -> bytes:
    out = io.BytesIO()
    with database.reading() as connection:
        how(connection, out, **more)
    return out.getvalue()


def test_what_was_exported_and_taken_in_elsewhere_is_the_same(
    two_benches: tuple[Bench, Bench], content: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "RUNS_AT_ONCE", 2)
    here, there = two_benches
    database, other = here.open(), there.open()
    fill(here, database)
    file = tmp_path / "runs.jsonl"
    file.write_bytes(exported(database, exports.export_jsonl))
    with database.writing() as connection:  # which is not exported
        connection.exec_driver_sql("DELETE FROM test_run WHERE verdict = 'running'")
    assert len(file.read_text().splitlines()) == 6
    assert Importer(other).add(format_of(file, combine).read(file)) == Imported(added=6)
    assert content(other) == content(database)


def test_the_lines_are_strict_json(bench: Bench) -> None:
    fill(bench, database := bench.open())
    for line in exported(database, exports.export_jsonl).decode("utf-8").splitlines():
        document = json.loads(line, parse_constant=pytest.fail)
        assert document["kind"] == "run"


def test_the_table_has_a_row_per_metric(bench: Bench) -> None:
    fill(bench, database := bench.open())
    rows = list(csv.DictReader(io.StringIO(exported(database, exports.export_csv).decode("utf-8"), newline="")))
    assert tuple(rows[0]) == exports.COLUMNS
    assert len(rows) == 2 * (2 * len(METRICS) + 1)
    first = {row["metric"]: (row["value"], row["text"]) for row in rows[: len(METRICS)]}
    assert first["rate"] == ("0.1", "")
    assert first["ok"] == ("1.0", "true")
    assert first["nan"] == ("", "NaN")
    assert first["text"] == ("", METRICS["text"])
    assert first["huge"] == (str(float(2**60)), str(2**60 + 1))
    assert rows[0]["session_name"] == "night 0"
    assert rows[0]["start"] == bench.moment.isoformat()
    assert rows[0]["session_dirty"] == "True"
    assert [row["metric"] for row in rows if row["name"] == "bare"] == ["", ""]
    assert not [row for row in rows if row["name"] == "under way"]


def test_parquet_has_the_same_table_with_types(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(exports, "ROWS_IN_A_GROUP", 5)
    fill(bench, database := bench.open())
    table = parquet.read_table(io.BytesIO(exported(database, exports.export_parquet)))
    assert tuple(table.column_names) == exports.COLUMNS
    rows = table.to_pylist()
    assert len(rows) == 2 * (2 * len(METRICS) + 1)
    assert rows[0]["start"] == bench.moment
    assert rows[0]["session_dirty"] is True
    assert {row["metric"]: row["value"] for row in rows[: len(METRICS)]}["rate"] == 0.1
    told = csv.reader(io.StringIO(exported(database, exports.export_csv).decode("utf-8"), newline=""))
    assert [row["text"] or "" for row in rows] == [row[-1] for row in told][1:]


def test_without_pyarrow_one_line_says_what_to_install(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"^export to parquet needs .* pip install 'curator-bench\[data\]'$"):
        exported(bench.open(), exports.export_parquet)


def test_an_empty_database_is_an_empty_table(bench: Bench) -> None:
    database = bench.open()
    assert exported(database, exports.export_jsonl) == b""
    assert exported(database, exports.export_csv).decode().splitlines() == [",".join(exports.COLUMNS)]
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(io.BytesIO(exported(database, exports.export_parquet))).num_rows == 0


def test_progress_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "RUNS_AT_ONCE", 4)
    fill(bench, database := bench.open())
    told: list[tuple[int, int]] = []
    exported(database, exports.export_csv, progress=lambda done, total: told.append((done, total)))
    assert told == [(4, 6), (6, 6)]
