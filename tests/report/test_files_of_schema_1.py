"""Files that the first release wrote: they are read as they were meant, whatever shape runs have today."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from curator_bench.cli import group
from curator_bench.files.codec import from_document, to_document
from curator_bench.report.session_runs import RESULTS, read_run, runs_of
from curator_bench.sinks import journal
from curator_bench.values import Cause, RunRecord, Verdict

WRITTEN = Path(__file__).parent / "data" / "schema_1"
SESSION = WRITTEN / "results" / "old"
VERDICTS = {
    "passes[1]": "passed",
    "passes[2]": "passed",
    "misses": "failed",
    "crashes": "crashed",
    "retried": "error",
    "skips": "skipped",
    "test_sorting[1]": "passed",
}


def run_of(folder: str) -> RunRecord:
    run = read_run(SESSION / folder / RESULTS)
    assert run is not None
    return run


def has_all(now: Any, then: Any) -> bool:
    """True where `now` says all that `then` says, and maybe more."""
    if isinstance(then, dict):
        return all(name in now and has_all(now[name], value) for name, value in then.items())
    if isinstance(then, list):
        return len(now) == len(then) and all(map(has_all, now, then))
    return bool(now == then)


def test_a_results_json_means_what_it_meant() -> None:
    run = run_of("passes/1")
    assert (run.verdict, run.entry, run.axes, run.attempt) == (Verdict.PASSED, "passes", {"size": "1"}, 1)
    assert run.params == {"size": 1, "deep": {"list": [1, 2]}}
    assert (run.metrics["rate"], run.metrics["label"], run.metrics["big"]) == (10.5, "blue", 2**60)
    assert isinstance(run.metrics["loss"], float)
    assert math.isnan(run.metrics["loss"])
    assert run.metrics["worst"] == math.inf
    assert [repeat.index for repeat in run.repeats] == [1, 2]
    missed = run_of("misses")
    assert [(one.metric, one.met, one.missing) for one in missed.requirements] == [
        ("rate", False, False),
        ("loss", False, False),
        ("gone", False, True),
    ]
    assert missed.category == "requirement"
    retried = run_of("retried")
    assert (retried.attempt, retried.cause, [one.attempt for one in retried.earlier]) == (2, Cause.DISK, [1])


@pytest.mark.parametrize("path", sorted(SESSION.rglob(RESULTS)), ids=lambda path: path.parent.name)
def test_a_run_that_is_written_again_says_the_same(path: Path) -> None:
    before = json.loads(path.read_text())
    del before["schema_version"]
    assert has_all(to_document(from_document(RunRecord, before)), before)


def test_the_whole_session_is_read_with_the_runs_that_only_its_summary_knows() -> None:
    assert {run.name: str(run.verdict) for run in runs_of(SESSION)} == VERDICTS


def test_what_a_sink_had_not_been_given_can_still_be_delivered() -> None:
    (left,) = journal.read(SESSION / "undelivered" / "_lost.py_Lost.jsonl")
    runs = [one for one in left.messages.values() if isinstance(one, RunRecord)]
    assert left.session.subjects[0].package == "pytest"
    assert {run.name: str(run.verdict) for run in runs} == VERDICTS
    assert [run.name for run in runs if not run.is_last] == ["retried"]


def test_a_session_of_the_first_release_is_gone_on_with(pytester: pytest.Pytester) -> None:
    for name in ("one.py", "crash.py", "lost.py", "matrix.yaml"):
        shutil.copy(WRITTEN / f"{name}.txt", pytester.path / name)
    shutil.copytree(SESSION, pytester.path / "results" / "old")
    options = ("--bench-resume=finished", "--bench-session", "old", "--bench-sink", "none")
    result = pytester.runpytest_subprocess("matrix.yaml", *options, "-p", "no:cacheprovider", "--collect-only")
    result.stdout.fnmatch_lines(["resume: 4 of 6 entries are done*", "*retried>"])


def test_a_shared_history_is_imported(tmp_path: Path) -> None:
    words = ["import", str(WRITTEN / "history.jsonl"), "--db", str(tmp_path / "benchmark.db")]
    result = CliRunner().invoke(group, words)
    assert (result.exit_code, "8 runs" in result.output) == (0, True), result.exception or result.output


def test_what_is_no_run_of_ours_is_not_believed(tmp_path: Path) -> None:
    ours: dict[str, Any] = json.loads((SESSION / "crashes" / RESULTS).read_text())
    odd: list[dict[str, Any]] = [{"name": 1}, {"verdict": "fine"}, {"metrics": [1]}, {"duration_s": "long"}]
    for wrong in [*odd, {"repeats": {"index": 1}}]:
        (tmp_path / RESULTS).write_text(json.dumps({**ours, **wrong}))
        assert read_run(tmp_path / RESULTS) is None, wrong
