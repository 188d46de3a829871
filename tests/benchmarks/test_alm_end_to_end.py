"""What comparing whole processes promises: the same entries on both sides, each of them counted, and fair ratios."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from curator_bench.matrix import LoadRequest, command_of, load

SUITE = Path(__file__).parents[2] / "benchmarks" / "alm"
sys.path.insert(0, str(SUITE))

import alm_end_to_end  # noqa: E402
import alm_lines  # noqa: E402
import make_manifest  # noqa: E402
from alm_end_to_end import Ended, Round  # noqa: E402
from alm_same_windows import cases, with_builtin  # noqa: E402
from alm_written import entries_in_manifest, entries_in_tasks, fingerprint  # noqa: E402

# A script to the contract of NeMo Curator's: the windows are in the task objects it leaves.
SCRIPT = """
import argparse, json, pickle, sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, {suite!r})
from alm_windows import WindowSettings
from alm_work import Settings, curate

parser = argparse.ArgumentParser()
for option in ("--benchmark-results-path", "--input-manifest", "--executor", "--repeat-factor"):
    parser.add_argument(option)
options = parser.parse_args()
entries = [json.loads(line) for line in Path(options.input_manifest).read_text().splitlines()]
settings = Settings(WindowSettings(), {overlap})
results = [curate(entry, settings) for entry in entries for _ in range(int(options.repeat_factor))]
folder = Path(options.benchmark_results_path)
(folder / "tasks.pkl").write_bytes(pickle.dumps([SimpleNamespace(data=result) for result in results]))
(folder / "metrics.json").write_text(json.dumps({{
    "is_success": True,
    "num_output_entries": len(results),
    "total_builder_windows": sum(len(result["windows"]) for result in results),
    "total_filtered_windows": sum(len(result["filtered_windows"]) for result in results),
    "total_filtered_dur_s": sum(result["filtered_dur"] for result in results),
}}))
"""


def compare(tmp_path: Path, overlap: int = 50, *words: object) -> dict[str, Any]:
    """Both sides on a checkout that has this script, and a manifest of three recordings."""
    checkout = tmp_path / "checkout"
    script = checkout / alm_end_to_end.SCRIPT
    script.parent.mkdir(parents=True)
    script.write_text(SCRIPT.format(suite=str(SUITE), overlap=overlap))
    make_manifest.write_manifest(tmp_path, count=3, seed=2)
    sample = checkout / alm_end_to_end.MANIFEST
    sample.parent.mkdir(parents=True)
    shutil.move(tmp_path / "manifest.jsonl", sample)
    command = [sys.executable, SUITE / "alm_end_to_end.py", "--curator-side", "script", "--curator-repo", checkout]
    command += ["--repeat-factor", 2, "--rounds", 1, "--scratch", tmp_path / "scratch"]
    command += ["--benchmark-results-path", tmp_path / "results", *words]
    env = {**os.environ, "CURATOR_BENCH_RUN": "of-this-test"}
    subprocess.run(list(map(str, command)), env=env, check=True, timeout=120, capture_output=True)
    metrics: dict[str, Any] = json.loads((tmp_path / "results" / "metrics.json").read_text())
    return metrics


def test_two_sides_that_write_the_same_are_compared_by_their_processes(tmp_path: Path) -> None:
    metrics = compare(tmp_path)
    assert metrics["is_success"]
    assert (metrics["differing_entries"], metrics["entries_written"]) == (0, 6)
    assert metrics["times_as_fast"] == pytest.approx(metrics["their_s"] / metrics["our_s"])
    assert metrics["our_cpu_s"] > 0
    tasks = pickle.loads((tmp_path / "results" / "tasks.pkl").read_bytes())
    names = [stage["stage_name"] for task in tasks for stage in task["_stage_perf"]]
    assert names == ["ours", "ours", "theirs", "theirs"]


def test_a_side_that_writes_other_windows_is_found_out(tmp_path: Path) -> None:
    metrics = compare(tmp_path, 1)
    assert not metrics["is_success"]
    assert metrics["differing_entries"] > 0


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    words = ["--curator-side", "script", "--curator-repo", tmp_path, "--repeat-factor", 2]
    words += ["--scratch", tmp_path, "--benchmark-results-path", tmp_path]
    command = list(map(str, [sys.executable, SUITE / "alm_end_to_end.py", *words]))
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert "must be a checkout of NeMo Curator" in " ".join(ended.stderr.split())


def test_ratios_are_of_processes_that_ran_beside_each_other() -> None:
    """The machine was ten times as slow in the second round, on both sides."""
    rounds = [round_of(ours=1, theirs=8), round_of(ours=10, theirs=80), round_of(ours=1, theirs=7)]
    metrics = alm_end_to_end.metrics_of(rounds)
    assert metrics["is_success"]
    assert (metrics["times_as_fast"], metrics["times_as_fast_min"]) == (8, 7)


def round_of(ours: float, theirs: float) -> Round:
    def ended(seconds: float) -> Ended:
        return Ended(seconds, seconds, (True, 1, 1, 1.0, 1), Counter(x=1))

    return Round((ended(ours), ended(ours)), (ended(theirs), ended(theirs)))


def test_entries_are_told_apart_wherever_they_were_written(tmp_path: Path) -> None:
    entries = [with_builtin(case) for case in list(cases(20, seed=3))[::2]]
    (tmp_path / "part-0.jsonl").write_text("".join(map(alm_lines.line_of, entries[:4] + entries[:2])))
    (tmp_path / "part-1.jsonl").write_text("".join(map(alm_lines.line_of, entries[4:])))
    tasks = [SimpleNamespace(data=entry) for entry in entries + entries[:2]]
    (tmp_path / "tasks.pkl").write_bytes(pickle.dumps(tasks))
    found = entries_in_manifest(tmp_path)
    assert found == entries_in_tasks(tmp_path / "tasks.pkl")
    assert found[fingerprint(entries[0])] == 2
    assert found.total() == len(entries) + 2


# Lines


def test_a_line_is_what_json_makes_of_the_entry() -> None:
    for case in cases(400, seed=4):
        result = with_builtin(case)
        assert alm_lines.line_of(result) == json.dumps(result, ensure_ascii=False) + "\n"


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"windows": None, "filtered_windows": [1, "ü", None], "stats": "none"},
        {"windows": [{"speaker_durations": [], "segments": []}, {"segments": None, "speaker_durations": [1]}]},
        {"windows": [[], {}, {"segments": {"a": 1}}], "stats": {"lost_win_full_data": [3]}, "x": float("nan")},
        {"stats": {"lost_win_full_data": [{"window_segs": 5, "other": {}}], 7: True}},
    ],
)
def test_a_line_of_another_shape_is_what_json_makes_of_it(entry: dict[str, Any]) -> None:
    assert alm_lines.line_of(entry) == json.dumps(entry, ensure_ascii=False) + "\n"


# The matrix


def test_the_limits_hold_for_whole_processes() -> None:
    matrix = load(LoadRequest(files=(SUITE / "end_to_end_matrix.yaml", SUITE / "compare_matrix.yaml"), variables={}))
    assert not matrix.warnings
    limits = {
        entry.id: one.min_value
        for entry in matrix.entries
        for one in entry.requirements
        if one.metric == "times_as_fast"
    }
    assert limits == {"alm_beside_the_script[200]": 5, "alm_beside_the_script[2000]": 10, "alm_end_to_end": 5}
    assert all("nemo_curator" in entry.requires for entry in matrix.entries if entry.id in limits)
    assert not [entry for entry in matrix.entries if command_of(entry, {}).problems]
