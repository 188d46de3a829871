"""`curator-bench show` prints where the time of a run went."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from curator_bench.cli.show import command
from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.recorder import Recorder
from curator_bench.store.records import InvocationRecord, RunEnd, RunStart, SessionRecord
from curator_bench.values import Stage, StageKind, Verdict

NOW = datetime(2026, 1, 23, 14, 30, tzinfo=UTC)
READ = Stage(
    name="ReadParquet->" + "Map(step)->" * 20 + "Write",
    kind=StageKind.OPERATOR,
    parts=("ReadParquet", "Write"),
    count=8,
    executing_s=30.0,
    waiting_s=2.5,
    backpressure_s=4.0,
    bytes_in=2**30,
    failures=2,
)
SORT = Stage(name="sort", kind=StageKind.TASK, count=4, executing_s=10.0, waits_missing=4)
LOST = Stage(name="lost", kind=StageKind.ACTOR, count=1, times_missing=1)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = tmp_path / "benchmark.db"
    with open_for_writing(database_url(file)) as opened:
        recorder = Recorder(opened, SessionRecord("night", str(tmp_path)), InvocationRecord("one", NOW))
        for name, stages in (("pipeline", (READ, SORT, LOST)), ("plain", ())):
            uid = recorder.start_run(RunStart(name, "matrix.yaml", NOW))
            recorder.finish_run(uid, RunEnd(Verdict.PASSED, NOW + timedelta(minutes=1), stages=stages))
    return file


def shown(database: Path, *options: str) -> str:
    outcome = CliRunner().invoke(command, ["night", "--db", str(database), *options])
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def test_the_stages_of_each_run_that_has_some_are_a_table(database: Path) -> None:
    text = shown(database)
    head, read, sort, lost = text.partition("stages of pipeline\n")[2].splitlines()
    assert " ".join(head.split()) == "STAGE KIND COUNT WORKER-SECONDS SHARE WAITING HELD BACK IN NOTES"
    assert read.startswith("ReadParquet->Map(step)->")
    assert "…" in read
    assert read.split("operator")[1].split("  ")[-1] == "2 failures"
    assert "30.0 s   75 %" in read
    assert "1.00 GiB" in read
    assert "25 %" in sort
    assert sort.endswith("4 waits unknown")
    assert lost.split() == ["lost", "actor", "1", "-", "-", "-", "-", "-", "1", "times", "unknown"]
    assert "stages of plain" not in text


def test_json_has_all_figures_and_null_for_the_unknown_ones(database: Path) -> None:
    runs = {run["name"]: run["stages"] for run in json.loads(shown(database, "--json"))["runs"]}
    assert runs["plain"] == []
    assert [stage["name"] for stage in runs["pipeline"]] == [READ.name, "sort", "lost"]
    assert runs["pipeline"][0]["parts"] == ["ReadParquet", "Write"]
    assert runs["pipeline"][2]["executing_s"] is None
