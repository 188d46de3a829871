"""Stages of a script: measured by name, and whatever it leaves instead costs a warning at most."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from curator_bench.execution.stage_lines import read_stage_lines
from curator_bench.values import StageKind, Verdict

if TYPE_CHECKING:
    from execution.conftest import Desk

SOURCE = str(Path(__file__).parents[2] / "src")
STAGES = f"sys.path.insert(0, {SOURCE!r})\nfrom curator_bench import stage\n"


def line(name: object = "read", **given: object) -> str:
    said = {"name": name, "count": 1, "failures": 0, "own": 0.5, "began": 10.0, "ended": 11.0, "pid": 1, **given}
    return json.dumps(list(said.values())) + "\n"


def test_a_scripts_stages_are_in_its_result_and_leave_no_file(desk: Desk) -> None:
    result = desk.run(
        STAGES
        + """
time.sleep(0.1)
with stage("read"):
    time.sleep(0.1)
@stage("sort")
def sort():
    time.sleep(0.05)
for _ in range(3):
    sort()
write({"n": 1})
"""
    )
    assert (result.verdict, result.warnings) == (Verdict.PASSED, ())
    read, sort = result.stages
    assert (read.name, read.kind, read.count, sort.name, sort.count) == ("read", StageKind.STEP, 1, "sort", 3)
    assert (read.executing_s or 0) >= 0.1
    assert (sort.executing_s or 0) >= 0.15
    assert 0.1 <= (read.started_s or 0) < (sort.started_s or 0) < result.duration_s
    assert not list(desk.entry_dir.rglob("stages.jsonl"))


def test_stages_of_repeats_are_medians(desk: Desk) -> None:
    code = """
    number = {"repeat_2": 2, "repeat_3": 3}.get(results_dir().parent.name, 1)
    Path(os.environ["CURATOR_BENCH_STAGES"]).write_text(json.dumps(
        ["read", number, 0, 10.0 * number * number, time.monotonic(), time.monotonic(), 1]))
    write({"n": 1})
    """
    result = desk.run(code, repeat=3)
    assert [(stage.name, stage.count, stage.executing_s) for stage in result.stages] == [("read", 2, 40.0)]
    assert result.stages[0].reading_s is None


def test_stages_of_a_script_that_crashed_are_known(desk: Desk) -> None:
    result = desk.run(STAGES + "with stage('read'): pass\nwith stage('sort'): raise SystemExit(3)")
    assert result.verdict is Verdict.CRASHED
    assert [(stage.name, stage.failures) for stage in result.stages] == [("read", 0), ("sort", 1)]


def test_tasks_of_a_pickle_are_stages(desk: Desk) -> None:
    code = """
    import pickle
    tasks = [{"_stage_perf": [{"stage_name": "sort", "process_time": seconds, "num_items_processed": 2},
                              {"stage_name": "write", "num_items_processed": 2}]} for seconds in (1.0, 3.0)]
    results_dir().joinpath("tasks.pkl").write_bytes(pickle.dumps(tasks))
    write({"n": 1})
    """
    sort, write = desk.run(code).stages
    assert (sort.name, sort.kind, sort.count, sort.executing_s) == ("sort", StageKind.STEP, 2, 4.0)
    assert (write.name, write.count, write.executing_s) == ("write", 2, None)


@pytest.mark.parametrize(
    "plant",
    [
        "os.mkfifo(file)",
        "os.symlink('/dev/zero', file)",
        "os.symlink(sys.argv[0], file)",
        "os.mkdir(file)",
        "open(file, 'wb').truncate(10 << 30)",
        "open(file, 'w').write('[' * 100_000)",
        r"open(file, 'w').write('[\"a\", 1, 0, NaN, 1, 2, 3]\n' * 1000)",
    ],
)
def test_whatever_stands_in_place_of_the_file_is_one_warning(desk: Desk, plant: str) -> None:
    began = time.monotonic()
    result = desk.run(f"file = os.environ['CURATOR_BENCH_STAGES']\n{plant}\nwrite({{'n': 1}})")
    assert result.verdict is Verdict.PASSED
    assert result.stages == ()
    [warning] = result.warnings
    assert warning.startswith("stages.jsonl ")
    assert time.monotonic() - began < 30
    assert not os.path.lexists(desk.entry_dir / "stages.jsonl")


def test_ten_million_stages_are_read_as_far_as_they_fit(tmp_path: Path) -> None:
    file = tmp_path / "stages.jsonl"
    block = "".join(line(f"stage {number}") for number in range(1000)) * 10
    with file.open("w") as out:
        for _ in range(1000):
            out.write(block)
    before = memory_mib()
    stages, [warning] = read_stage_lines(file, 0.0)
    assert len(stages) == 500
    assert "16 MiB" in warning
    assert "500 stages" in warning
    assert memory_mib() - before < 50


def memory_mib() -> float:
    import psutil

    return float(psutil.Process().memory_info().rss) / 2**20


@pytest.mark.parametrize(
    "odd",
    [
        line(count=-1),
        line(count=1.5),
        line(count=True),
        line(count=10**40),
        line(own=-1),
        line(own="1"),
        line(own=10**400),
        line(ended=1.0),
        line(name=5),
        line(name=""),
        line(name="x" * 251),
        line(more=1),
        '{"a": 1}\n',
        "nonsense\n",
        "\0\n",
    ],
)
def test_a_line_that_is_no_stage_is_left_out_with_a_warning(tmp_path: Path, odd: str) -> None:
    file = tmp_path / "stages.jsonl"
    file.write_text(line() + odd + line())
    [stage], [warning] = read_stage_lines(file, 9.0)
    assert (stage.name, stage.count, stage.executing_s, stage.started_s, stage.active_s) == ("read", 2, 1.0, 1.0, 1.0)
    assert "1 lines" in warning


def test_without_a_file_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert read_stage_lines(tmp_path / "stages.jsonl", 0.0) == ((), [])
