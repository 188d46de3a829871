"""How far a session is: what is counted as what, how long the rest may take, what GPUs have cost."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import termios
import time
from pathlib import Path
from typing import Any, cast

import pytest

from curator_bench.measure.processes import busyness
from curator_bench.report import progress as progress_module
from curator_bench.report.live import LiveLines
from curator_bench.report.progress import Planned, Progress, Usual
from curator_bench.report.progress_output import ProgressOutput, Repeated, document, line, screen
from curator_bench.values import RunRecord, Verdict


class Clock:
    """Only moves when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress_module, "time", clock)
    return clock


def planned(tmp_path: Path, *names: str, num_gpus: float | None = 0.0) -> dict[str, Planned]:
    return {f"m.yaml::{name}": Planned(tmp_path / name, num_gpus) for name in names}


def run(name: str, seconds: float, verdict: str = "passed", **facts: Any) -> RunRecord:
    return RunRecord(nodeid=f"m.yaml::{name}", name=name, verdict=Verdict(verdict), duration_s=seconds, **facts)


def finish(progress: Progress, ended: RunRecord) -> None:
    progress.end(ended.nodeid, ended.verdict, ended)


def test_what_was_asked_for_is_done_skipped_by_resume_running_or_waiting(tmp_path: Path, clock: Clock) -> None:
    progress = Progress(planned(tmp_path, "a", "b", "c", "d", "e"))
    progress.expect(["m.yaml::a", "m.yaml::b", "m.yaml::c", "m.yaml::d", "test_other.py::test_it"])
    progress.note_done_before([run("e", 5)])
    for name in ("a", "b", "c"):
        progress.begin(f"m.yaml::{name}")
    finish(progress, run("a", 1.0))
    finish(progress, run("b", 1.0, "timeout"))
    now = progress.now()
    assert (now.total, now.done, now.skipped_by_resume, now.failed, now.waiting) == (5, 2, 1, 1, 1)
    assert [each.name for each in now.running] == ["c"]
    assert dict(now.counts) == {"passed": 1, "timeout": 1}


def test_what_another_invocation_has_is_running_elsewhere_until_it_is_done_there(tmp_path: Path, clock: Clock) -> None:
    names = ["mine", "runs", "done", "given_up"]
    progress = Progress(planned(tmp_path, *names))
    progress.expect(f"m.yaml::{name}" for name in names)
    for name in names[1:]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "claim.json").touch()
        progress.begin(f"m.yaml::{name}")
        progress.note_elsewhere(f"m.yaml::{name}")
        progress.end(f"m.yaml::{name}", "skipped")
    assert line(progress.now()) == "0 of 4 done, 0 running, 3 running elsewhere"
    (tmp_path / "done" / "results.json").touch()
    for name in ("done", "given_up"):
        (tmp_path / name / "claim.json").unlink()
    now = progress.now()
    assert (now.total, now.done, now.done_elsewhere, now.running_elsewhere, now.waiting) == (4, 0, 1, ("runs",), 2)
    assert line(now) == "1 of 4 done (1 by another invocation), 0 running, 1 running elsewhere"


def test_an_item_without_a_run_is_counted_once_and_a_teardown_changes_nothing(tmp_path: Path, clock: Clock) -> None:
    progress = Progress(planned(tmp_path, "a", "b"))
    for name in ("a", "b"):
        progress.begin(f"m.yaml::{name}")
    progress.end("m.yaml::a", "skipped")
    finish(progress, run("b", 1.0))
    progress.end("m.yaml::b", "error")
    assert dict(progress.now().counts) == {"skipped": 1, "passed": 1}


def test_the_time_left_is_what_history_says_shared_by_as_many_as_run_now(tmp_path: Path, clock: Clock) -> None:
    seconds = {"m.yaml::a": 50.0, "m.yaml::b": 60.0, "m.yaml::c": 40.0, "m.yaml::d": 20.0}
    usual = {nodeid: Usual(took, otherwise=1.0) for nodeid, took in seconds.items()}
    progress = Progress(planned(tmp_path, "a", "b", "c", "d"), lambda: usual)
    progress.look_up()
    progress.expect(usual)
    progress.begin("m.yaml::b")
    progress.begin("m.yaml::c")
    assert progress.now().left_s == (50 + 60 + 40 + 20) / 2
    clock.now += 30
    assert progress.now().left_s == (50 + 30 + 10 + 20) / 2
    clock.now += 30  # c takes longer than ever before
    assert progress.now().left_s == 50  # however many run side by side, a takes as long as it takes


def test_without_history_runs_of_this_session_tell_what_their_like_will_take(tmp_path: Path, clock: Clock) -> None:
    progress = Progress(planned(tmp_path, "a[1]", "a[2]", "a[3]", "b"))
    progress.expect(["m.yaml::a[1]", "m.yaml::a[2]", "m.yaml::a[3]", "m.yaml::b"])
    progress.begin("m.yaml::a[1]")
    assert progress.now().left_s is None
    finish(progress, run("a[1]", 10.0))
    progress.begin("m.yaml::b")
    finish(progress, run("b", 40.0))
    assert progress.now().left_s == 20.0
    progress.begin("m.yaml::a[2]")
    assert progress.now().running[0].expected_s is None  # a mean is no history
    assert progress.now().left_s == 20.0


@pytest.mark.parametrize("verdict", ["error", "crashed", "interrupted", "skipped"])
def test_a_run_that_did_not_take_its_time_tells_nothing_of_others(tmp_path: Path, clock: Clock, verdict: str) -> None:
    progress = Progress(planned(tmp_path, "a", "b", "c"))
    progress.expect(["m.yaml::a", "m.yaml::b", "m.yaml::c"])
    progress.begin("m.yaml::a")
    finish(progress, run("a", 0.0, verdict))
    progress.begin("m.yaml::b")
    assert progress.now().left_s is None
    assert "left" not in line(progress.now())
    finish(progress, run("b", 9.0, "timeout"))
    assert progress.now().left_s == 9.0


def test_nothing_is_said_of_the_time_left_when_it_is_over(tmp_path: Path, clock: Clock) -> None:
    progress = Progress(planned(tmp_path, "a"), lambda: {"m.yaml::a": Usual(5.0)})
    progress.look_up()
    progress.begin("m.yaml::a")
    assert "about 5.00 s left" in line(progress.now())
    clock.now += 6
    assert "left" not in line(progress.now())
    finish(progress, run("a", 6.0))
    assert "left" not in line(progress.now())


def test_history_of_another_definition_is_no_expectation_but_better_than_nothing(tmp_path: Path, clock: Clock) -> None:
    progress = Progress(planned(tmp_path, "a[1]", "a[2]", "b"), lambda: {"m.yaml::a[2]": Usual(otherwise=30.0)})
    progress.look_up()
    progress.begin("m.yaml::b")
    finish(progress, run("b", 5.0))
    progress.begin("m.yaml::a[2]")
    assert (progress.now().running[0].expected_s, progress.now().left_s) == (None, 30.0)
    progress.begin("m.yaml::a[1]")
    finish(progress, run("a[1]", 4.0))
    assert progress.now().left_s == 4.0


def test_what_was_done_before_tells_how_long_the_rest_takes(tmp_path: Path, clock: Clock) -> None:
    progress = Progress(planned(tmp_path, "a[1]", "a[2]"))
    progress.expect(["m.yaml::a[2]"])
    progress.note_done_before([run("a[1]", 12.0)])
    assert progress.now().left_s == 12.0


def test_gpu_hours_are_of_all_attempts_and_of_what_still_runs(tmp_path: Path, clock: Clock) -> None:
    progress = Progress(planned(tmp_path, "a", "b", num_gpus=2))
    progress.begin("m.yaml::a", "node1", ["0", "1"])
    clock.now += 1800
    progress.wait_again("m.yaml::a")
    clock.now += 1800  # in the queue
    assert progress.now().gpu_hours == 1.0
    assert progress.now().waiting == 1
    progress.begin("m.yaml::a", "node2", ["2", "3"])
    clock.now += 900
    assert progress.now().gpu_hours == 1.5
    finish(progress, run("a", 3600.0))
    assert progress.now().gpu_hours == 3.0
    finish(progress, run("a", 3600.0, "failed"))
    assert progress.now().gpu_hours == 3.0
    assert progress.now().failed == 1


def test_gpus_that_nobody_asked_for_count_as_the_cluster_had_them(tmp_path: Path, clock: Clock) -> None:
    progress = Progress(planned(tmp_path, "a", num_gpus=None))
    progress.begin("m.yaml::a")
    finish(progress, run("a", 1800.0, ray_num_gpus=4.0))
    assert progress.now().gpu_hours == 2.0


def test_what_runs_is_told_with_node_gpu_times_and_its_last_line(tmp_path: Path, clock: Clock) -> None:
    progress = Progress(
        planned(tmp_path, "a", "b", num_gpus=1), lambda: {"m.yaml::a": Usual(90.0), "m.yaml::b": Usual(60.0)}
    )
    progress.look_up()
    progress.begin("m.yaml::a", "node7", ["3"])
    progress.note_status("m.yaml::a", {"state": "starting Ray", "last_line": "\x1b[31mstep 4", "host": "node7"})
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "status.json").write_text('{"state": "running", "last_line": "step 1", "host": "here"}')
    progress.begin("m.yaml::b")
    clock.now += 45
    now = progress.now()
    assert screen(now) == [
        "    0 of 2 done, 2 running, about 45.0 s left, 0.03 GPU-hours",
        "    ⏱ a on node7, GPU 3 45.0 s of about 90.0 s (starting Ray) │ step 4",
        "    ⏱ b 45.0 s of about 60.0 s │ step 1",
    ]
    assert line(now).endswith(": a on node7, GPU 3 45.0 s of about 90.0 s; b 45.0 s of about 60.0 s")
    told = document(now)["running"]
    assert [(each["name"], each["host"], each["gpus"]) for each in told] == [("a", "node7", ["3"]), ("b", "here", [])]
    assert told[0]["expected_s"] == 90.0


def test_a_line_names_a_few_and_counts_the_rest(tmp_path: Path, clock: Clock) -> None:
    names = [f"e{number}" for number in range(20)]
    progress = Progress(planned(tmp_path, *names))
    for name in names:
        progress.begin(f"m.yaml::{name}")
    assert "\n" not in line(progress.now())
    assert line(progress.now()).endswith("; 12 more")


def test_a_terminal_that_is_too_low_gets_fewer_lines() -> None:
    ours, theirs = os.openpty()
    with open(ours, "rb", buffering=0), open(theirs, "w") as out:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 60, 0, 0))
        lines = LiveLines(cast("Any", out), lambda: [f"line {number}" for number in range(30)])
        lines.resume()
        shown = b""
        deadline = time.monotonic() + 10 * busyness()
        while b"more" not in shown and time.monotonic() < deadline:
            shown += os.read(ours, 4096)
        lines.close()
    assert [text.decode().strip() for text in shown.splitlines() if b"line" in text] == [f"line {n}" for n in range(5)]
    assert "… and 25 more" in shown.decode()


def test_progress_that_cannot_be_written_stops_nothing_and_the_last_word_is_that_it_ended(tmp_path: Path) -> None:
    written: list[dict[str, Any]] = []

    def write(document: dict[str, Any]) -> None:
        written.append(document)
        if len(written) == 1:
            raise OSError("disk full")

    progress = Progress(
        planned(tmp_path, "a", "never"), lambda: {"m.yaml::a": Usual(5.0), "m.yaml::never": Usual(60.0)}
    )
    progress.expect(["m.yaml::a", "m.yaml::never"])
    told = ProgressOutput(progress, write, {"session": "s"}, line_every_s=0)
    progress.begin("m.yaml::a")
    told.start()
    deadline = time.monotonic() + 20 * busyness()
    while len(written) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    finish(progress, run("a", 1.0))
    told.close()
    assert [each["state"] for each in written][-2:] == ["running", "ended"]
    assert written[-1]["counts"] == {"passed": 1}
    assert written[-1]["waiting"] == 1
    assert [each["left_s"] is None for each in written][-2:] == [False, True]
    json.dumps(written[-1], allow_nan=False)


def test_what_happens_now_and_then_stops_when_it_is_closed() -> None:
    calls: list[float] = []
    repeated = Repeated(0.01, lambda: calls.append(time.monotonic()))
    deadline = time.monotonic() + 10 * busyness()
    while len(calls) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    repeated.close()
    count = len(calls)
    time.sleep(0.1)
    assert count >= 3
    assert len(calls) == count
