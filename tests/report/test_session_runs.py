"""The runs of a session are those its folder has, whoever was killed before writing a summary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from curator_bench.files.codec import from_document
from curator_bench.report.session_runs import broken_below, runs_of
from curator_bench.report.summary import write_summary
from curator_bench.values import RunRecord


def run(name: str, verdict: str = "passed", at: str = "2026-01-01T00:00:00.000+00:00", **more: Any) -> dict[str, Any]:
    known = {"entry": name.partition("[")[0], "axes": {}, "duration_s": 1.5, "error": "", "log_tail": []}
    return {**known, "name": name, "verdict": verdict, "started_at": at, "metrics": {}, **more}


def record(name: str, verdict: str = "passed", **more: Any) -> RunRecord:
    return from_document(RunRecord, run(name, verdict, **more))


def leave(folder: Path, found: dict[str, Any]) -> None:
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(found))


def verdicts(session: Path) -> dict[str, str]:
    return {found.name: found.verdict for found in runs_of(session)}


def test_what_was_killed_before_its_summary_is_found(tmp_path: Path) -> None:
    leave(tmp_path / "a" / "x", run("a[x]"))
    leave(tmp_path / "b", run("b", "failed"))
    assert verdicts(tmp_path) == {"a[x]": "passed", "b": "failed"}


def test_results_of_attempts_and_what_scripts_leave_are_not_taken_for_runs(tmp_path: Path) -> None:
    leave(tmp_path / "a", run("a", "failed"))
    for inside in ("attempt_2", "repeat_2", "scratch", "artifacts", "benchmark_results"):
        leave(tmp_path / "a" / inside, run("a"))
    leave(tmp_path / "data_setup", run("c"))
    assert verdicts(tmp_path) == {"a": "failed"}


@pytest.mark.parametrize("torn", ["", "{", "[]", '{"name": "a"}', "\x00\x00"])
def test_a_torn_file_is_no_run(tmp_path: Path, torn: str) -> None:
    leave(tmp_path / "b", run("b"))
    leave(tmp_path / "a", {})
    (tmp_path / "a" / "results.json").write_text(torn)
    (tmp_path / "summary.json").write_text(torn)
    assert verdicts(tmp_path) == {"b": "passed"}
    assert broken_below(tmp_path) == [f"{tmp_path}/a/results.json is broken"]
    (tmp_path / "a" / "results.json").write_text(json.dumps(run("a", schema_version=99)))
    assert broken_below(tmp_path) == [
        f"{tmp_path}/a/results.json is of another version of curator-bench (schema_version 99)"
    ]


def test_the_run_that_began_last_counts(tmp_path: Path) -> None:
    write_summary(tmp_path, [record("a", "failed", matrix="/m.yaml"), record("python", file="test_it.py")])
    leave(tmp_path / "a", run("a", "passed", "2026-01-02T00:00:00.000+00:00", matrix="/m.yaml"))
    assert verdicts(tmp_path) == {"a": "passed", "python": "passed"}


def test_a_summary_counts_the_whole_session_and_each_value_of_an_axis(tmp_path: Path) -> None:
    leave(tmp_path / "a" / "x", run("a[x]", axes={"model": "x"}))
    write_summary(tmp_path, [record("a[y]", "crashed", axes={"model": "y"}, log_tail=["MemoryError"]), record("b")])
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["counts"] == {"passed": 2, "crashed": 1}
    assert summary["total"] == {"runs": 3, "counts": {"passed": 2, "crashed": 1}, "duration_s": 4.5}
    assert summary["axes"]["model"]["y"] == {"runs": 1, "counts": {"crashed": 1}, "duration_s": 1.5}
    assert summary["entries"]["a"]["runs"] == 2
    assert summary["failures_by_category"] == {"out of memory on host": 1}
    assert [(one["name"], one["category"]) for one in summary["failures"]] == [("a[y]", "out of memory on host")]
    assert len(summary["runs"]) == 3
