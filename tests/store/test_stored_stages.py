"""Stages are parts of a run: recorded with it, and never without it."""

from __future__ import annotations

from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from curator_bench.importing.exported_runs import read
from curator_bench.importing.importer import Importer
from curator_bench.store.database import Database
from curator_bench.store.exports import export_jsonl
from curator_bench.store.merge import merge
from curator_bench.store.prune import prune
from curator_bench.store.stages import stages_of
from curator_bench.values import Stage, StageKind

if TYPE_CHECKING:
    from store.conftest import Bench

FUSED = Stage(
    name="ReadParquet->Map(clean)",
    kind=StageKind.OPERATOR,
    parts=("ReadParquet", "Map(clean)"),
    count=8,
    started_s=0.5,
    ended_s=12.25,
    active_s=11.0,
    executing_s=40.0,
    reading_s=0.25,
    storing_s=1.5,
    waiting_s=3.0,
    times_missing=1,
    waits_missing=2,
    bytes_in=1 << 40,
    bytes_out=0,
    backpressure_s=2.5,
    retries=1,
    failures=3,
)
STEP = Stage(name='na\0me "of" a stépᵉ', kind=StageKind.STEP)
STAGES = (STEP, FUSED)


def read_stages(database: Database, *uids: str) -> dict[str, tuple[Stage, ...]]:
    with database.reading() as connection:
        return stages_of(connection, uids)


def test_stages_come_back_as_they_were_measured_and_unknown_figures_stay_unknown(bench: Bench) -> None:
    database = bench.open()
    recorder = bench.recorder(database)
    with_stages, without = (recorder.start_run(bench.start(name)) for name in ("with", "without"))
    recorder.finish_run(with_stages, bench.end(stages=(FUSED,)))
    recorder.finish_run(without, bench.end())
    assert read_stages(database, with_stages, without, "unknown") == {with_stages: (FUSED,)}
    recorder.finish_run(with_stages, bench.end(stages=STAGES))
    [step, fused] = read_stages(database, with_stages)[with_stages]
    assert (step.name, step.executing_s, step.bytes_in) == ('na\ufffdme "of" a stépᵉ', None, None)
    assert fused == FUSED


def test_figures_that_no_column_can_hold_do_not_lose_the_run(bench: Bench) -> None:
    database = bench.open()
    recorder = bench.recorder(database)
    uid = recorder.start_run(bench.start())
    odd = Stage(name="x" * 5000, kind=StageKind.TASK, count=2**70, executing_s=float("nan"), bytes_in=2**64)
    recorder.finish_run(uid, bench.end(stages=(odd, odd)))
    assert recorder.problems() == ()
    found = read_stages(database, uid)[uid]
    assert [(one.count, one.executing_s, one.bytes_in) for one in found] == [(2**63 - 1, None, 2**63 - 1)] * 2


def test_stages_go_with_their_run(bench: Bench) -> None:
    database = bench.open()
    recorder = bench.recorder(database)
    old, new = (recorder.start_run(bench.start(start=bench.moment + timedelta(days=day))) for day in (0, 9))
    for uid in (old, new):
        recorder.finish_run(uid, bench.end(stages=STAGES))
    prune(database, bench.moment + timedelta(days=5))
    assert len(bench.rows("stage", "run")) == len(STAGES)
    assert set(read_stages(database, old, new)) == {new}


def test_stages_are_merged_with_their_run(two_benches: tuple[Bench, Bench]) -> None:
    here, there = (bench.open() for bench in two_benches)
    recorder = two_benches[0].recorder(here)
    uid = recorder.start_run(two_benches[0].start())
    merge(here, there)
    recorder.finish_run(uid, two_benches[0].end(stages=(FUSED,)))
    for _ in range(2):
        merge(here, there)
        assert read_stages(there, uid) == {uid: (FUSED,)}


def test_stages_are_exported_and_imported_with_their_run(two_benches: tuple[Bench, Bench], tmp_path: Path) -> None:
    here, there = (bench.open() for bench in two_benches)
    recorder = two_benches[0].recorder(here)
    uid = recorder.start_run(two_benches[0].start())
    recorder.finish_run(uid, two_benches[0].end(stages=(FUSED,)))
    lines = BytesIO()
    with here.reading() as connection:
        export_jsonl(connection, lines)
    file = tmp_path / "runs.jsonl"
    file.write_bytes(lines.getvalue())
    taken = Importer(there).add(read(file))
    assert (taken.added, taken.mistakes) == (1, [])
    assert read_stages(there, uid) == {uid: (FUSED,)}


def test_a_line_with_an_impossible_stage_is_refused_by_its_place(bench: Bench, tmp_path: Path) -> None:
    database = bench.open()
    recorder = bench.recorder(database)
    recorder.finish_run(recorder.start_run(bench.start()), bench.end(stages=(FUSED,)))
    lines = BytesIO()
    with database.reading() as connection:
        export_jsonl(connection, lines)
    file = tmp_path / "runs.jsonl"
    file.write_bytes(lines.getvalue().replace(b'"operator"', b'"kitchen"'))
    [mistake] = Importer(database).add(read(file)).mistakes
    assert "end.stages" in str(mistake)
    assert "kitchen" in str(mistake)
