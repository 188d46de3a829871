"""--bench-resume: what is finished is not run again, whatever ended the session; what is not, or is another, is."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import threading
import time
from typing import TYPE_CHECKING

import pytest
import warm

from curator_bench.measure.processes import busyness

if TYPE_CHECKING:
    from pathlib import Path

    from end_to_end.conftest import Outcome, Project

pytestmark = pytest.mark.slow

COUNTS = """
import os, sys, time
from pathlib import Path
name, seconds, code = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
with Path("starts").open("a") as file:
    file.write(name + "\\n")
time.sleep(seconds)
out = Path(sys.argv[-1])
(out / "params.json").write_text("{}")
(out / "metrics.json").write_text('{"is_success": true}')
sys.exit(code)
"""
FLEET = ("--bench-fleet", "local", "--bench-fleet-cpus", "1")
RECORDED = ("--benchmark", "--benchmark-db", "runs.db")


@pytest.fixture
def counting(project: Project) -> Project:
    """Its script notes in a file that it was started."""
    project.write("counts.py", COUNTS)
    return project


def entry(name: str, seconds: float = 0, code: int = 0, **keys: object) -> dict[str, object]:
    return {"name": name, "script": "counts.py", "args": f"{name} {seconds} {code}", **keys}


def starts(project: Project) -> list[str]:
    file = project.folder / "starts"
    return file.read_text().split() if file.exists() else []


def started_by(project: Project, *options: str) -> list[str]:
    """What one more invocation starts."""
    before = len(starts(project))
    outcome = project.run(*options)
    project.write("output", outcome.output)
    return starts(project)[before:]


def said(project: Project) -> str:
    return (project.folder / "output").read_text()


def test_only_what_did_not_pass_runs_again_and_the_rest_counts_in_the_summary(counting: Project) -> None:
    counting.matrix(entry("good"), entry("bad", code=1), entry("also_good"))
    assert counting.run(*RECORDED).code == 1
    assert started_by(counting, "--bench-resume", *RECORDED) == ["bad"]
    assert "resume: 2 of 3 entries are done" in said(counting)
    summary = json.loads((counting.session_dir / "summary.json").read_text())
    assert summary["counts"] == {"passed": 2, "crashed": 1}


def test_entries_are_counted_once_and_their_attempts_apart(counting: Project) -> None:
    counting.matrix(entry("good"), entry("bad", code=1), entry("also_good"))
    for _ in range(3):
        outcome = counting.run("--bench-resume", *RECORDED)
    assert "2 entries were done before (2 passed)" in outcome.output
    asked = warm.run("curator-bench", "sessions", "--db", "runs.db", cwd=counting.folder)
    listed = asked.stdout.splitlines()
    assert listed[1].split()[3:] == ["3", "1", "crashed,", "2", "passed", "5", "-", "-", "-"]


def test_a_misspelt_session_is_not_begun_and_one_of_a_series_is(counting: Project) -> None:
    counting.matrix(entry("good"))
    assert counting.run("--bench-session", "nightly_1").code == 0
    outcome = counting.run("--bench-session", "nigthly_1", "--bench-resume")
    assert outcome.code == 4
    assert "has no session 'nigthly_1'; did you mean 'nightly_1'?" in outcome.output
    assert not (counting.folder / "results" / "nigthly_1").exists()
    following = counting.run("--bench-session", "nightly_2", "--bench-resume")
    assert following.code == 0
    assert "nightly_2 is a new session" in following.output


def test_finished_keeps_every_verdict_of_its_own_and_fails_for_those_that_did_not_pass(counting: Project) -> None:
    counting.matrix(entry("good"), entry("bad", code=1), entry("missing", requires=["no_such_package"]))
    counting.run()
    assert started_by(counting, "--bench-resume=finished") == []
    outcome = counting.run("--bench-resume=finished")
    assert outcome.code == 1
    assert "1 skipped, 2 deselected" in outcome.output


def test_a_session_that_is_complete_ends_well_at_once(counting: Project) -> None:
    counting.matrix(entry("good"))
    counting.run()
    outcome = counting.run("--bench-resume")
    assert outcome.code == 0, outcome.output
    assert "1 of 1 entries are done" in outcome.output


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"args": "good 0 0 --more"}, "its arguments changed"),
        ({"env": {"A": "1"}}, "its environment changed"),
        ({"timeout_s": 59}, ""),
    ],
    ids=["args", "env", "timeout"],
)
def test_a_changed_definition_runs_again_and_says_what_changed(
    counting: Project, change: dict[str, object], told: str
) -> None:
    counting.matrix(entry("good"))
    counting.run()
    counting.matrix({**entry("good"), **change})
    assert started_by(counting, "--bench-resume") == (["good"] if told else [])
    assert told in said(counting)


def test_what_was_measured_is_held_against_the_requirements_there_are_now(counting: Project) -> None:
    def demand(good: bool, bad: bool) -> None:
        counting.matrix(
            {**entry("good"), "requirements": [{"metric": "is_success", "exact_value": good}]},
            {**entry("bad"), "requirements": [{"metric": "is_success", "exact_value": bad}]},
            {**entry("often"), "repeat": 1 if good else 2},
        )

    demand(good=True, bad=False)
    counting.run()
    assert started_by(counting, "--bench-resume=finished") == []
    demand(good=False, bad=True)
    assert started_by(counting, "--bench-resume=finished") == ["good", "bad", "often", "often"]
    missed = "its requirements changed, and the recorded metrics do not meet that on is_success"
    assert f"good runs again: {missed}" in said(counting)
    assert "bad runs again: its requirements changed, and the recorded metrics meet them" in said(counting)
    assert "often runs again: it was measured 1 of 2 times" in said(counting)
    demand(good=True, bad=False)
    assert started_by(counting, "--bench-resume=finished", "-k", "bad") == ["bad"]
    assert "bad runs again: its requirements changed" in said(counting)
    assert "good runs again" not in said(counting)


def test_a_changed_script_runs_again(counting: Project) -> None:
    counting.matrix(entry("good"))
    counting.run()
    counting.write("counts.py", COUNTS + "# another\n")
    assert started_by(counting, "--bench-resume") == ["good"]
    assert "good runs again: its script changed" in said(counting)


def test_where_directory_and_database_disagree_it_runs_again_and_that_is_said(counting: Project) -> None:
    counting.matrix(entry("a"), entry("b"))
    counting.run(*RECORDED)
    with sqlite3.connect(counting.folder / "runs.db") as database:
        database.execute("UPDATE test_run SET verdict = 'interrupted' WHERE name = 'a'")
    assert started_by(counting, "--bench-resume", *RECORDED) == ["a"]
    assert "a runs again: the directory says passed, the database interrupted" in said(counting)
    assert started_by(counting, "--bench-resume", "--benchmark", "--benchmark-db", "other.db") == ["a", "b"]
    assert "the database does not have it" in said(counting)
    counting.write("other.yaml", (counting.folder / "matrix.yaml").read_text())
    command = [word.replace("matrix.yaml", "other.yaml") for word in counting.command("--bench-resume", *RECORDED)]
    renamed = warm.run(*command[2:], "--collect-only", cwd=counting.folder, env=counting.environment())
    assert "the database knows it as one of matrix.yaml, not of other.yaml" in renamed.stdout


BROKEN = {
    "empty": b"",
    "zeros": b"\0" * 512,
    "cut": b'{"name": "a", "verd',
    "list": b"[]",
    "odd": b'{"name": "odd", "uid": "u", "verdict": ["passed"]}',
    "nothing": b'{"name": "nothing", "uid": "u", "verdict": "passed", "metrics": null}',
    "newer": b'{"name": "newer", "uid": "u", "verdict": "passed", "schema_version": 2}',
}


def test_a_result_file_that_is_broken_counts_for_nothing_and_the_database_alone_is_not_believed(
    counting: Project,
) -> None:
    """As a power cut may leave it, or as nobody of ours has written it."""
    counting.matrix(entry("good"), *map(entry, BROKEN))
    counting.run(*RECORDED)
    for name, content in BROKEN.items():
        (counting.session_dir / name / "results.json").write_bytes(content)
    assert started_by(counting, "--bench-resume", *RECORDED) == list(BROKEN)
    for name in BROKEN:
        what = "of another version of curator-bench (schema_version 2)" if name == "newer" else "broken"
        file = counting.session_dir / name / "results.json"
        assert f"{name} runs again: the database says passed, {file} is {what}\n" in said(counting)


def test_without_a_name_the_newest_session_of_the_matrix_goes_on(counting: Project) -> None:
    def run(*options: str) -> Outcome:
        command = [word for word in counting.command(*options) if word not in ("--bench-session", "s")]
        own = counting.command
        try:
            counting.command = lambda *_: command  # type: ignore[method-assign]
            return counting.run()
        finally:
            counting.command = own  # type: ignore[method-assign]

    counting.matrix(entry("a"))
    run("--bench-session=older")
    run("--bench-session=newer")
    assert starts(counting) == ["a", "a"]
    could_not_start = counting.folder / "results" / "newest" / "session.json"
    could_not_start.parent.mkdir()
    newer = json.loads((counting.folder / "results" / "newer" / "session.json").read_text())
    could_not_start.write_text(json.dumps({**newer, "started_at": "9999-01-01"}))
    outcome = run("--bench-resume")
    assert "results/newer" in outcome.output
    assert starts(counting) == ["a", "a"]


def test_it_works_in_workers_of_xdist(counting: Project) -> None:
    counting.matrix(*(entry(f"e{number}") for number in range(4)), entry("bad", code=1))
    counting.run("-n", "2")
    assert started_by(counting, "--bench-resume", "-n", "2") == ["bad"]
    assert said(counting).count("resume: 4 of 5 entries are done") == 1


def wait_for_starts(project: Project, count: int) -> None:
    deadline = time.monotonic() + 60 * busyness()
    while len(starts(project)) < count and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(starts(project)) >= count


def test_after_a_kill_of_everything_it_goes_on_from_there(counting: Project) -> None:
    counting.matrix(entry("a"), entry("b", seconds=30), entry("c"))
    process = counting.start(*RECORDED)
    wait_for_starts(counting, 2)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60 * busyness())
    counting.matrix(entry("a"), entry("b"), entry("c"))
    assert started_by(counting, "--bench-resume", *RECORDED) == ["b", "c"]
    with sqlite3.connect(counting.folder / "runs.db") as database:
        rows = database.execute("SELECT name, verdict FROM test_run ORDER BY id").fetchall()
    assert rows == [("a", "passed"), ("b", "interrupted"), ("b", "passed"), ("c", "passed")]


HERE_AND_IN_A_FLEET = pytest.mark.parametrize("how", [(), FLEET], ids=["here", "fleet"])


@HERE_AND_IN_A_FLEET
def test_what_a_machine_that_died_had_claimed_comes_last_when_its_time_is_over(
    counting: Project, how: tuple[str, ...]
) -> None:
    counting.matrix(entry("claimed"), entry("free"), entry("lives"))
    now = time.time()
    stop = threading.Event()
    starts_within_s = 8 * busyness()
    for name, age in (("claimed", 300 - starts_within_s), ("lives", 0)):
        put_claim(counting, name, now - age)
    heart = threading.Thread(target=renew, args=(counting.session_dir / "lives" / "claim.json", stop))
    heart.start()
    try:
        assert started_by(counting, "--bench-resume", "-rs", *how) == ["free", "claimed"]
    finally:
        stop.set()
        heart.join()
    assert "claimed is claimed by process 12 on elsewhere, since 2026-01-23; taken over at " in said(counting)
    assert "\n    Not run here: lives: it is being run by process 12 on elsewhere" in said(counting)
    assert "Running lives" not in said(counting)
    assert "\n1 entry was left to other invocations, which still run 1 of them\n" in said(counting)


def put_claim(project: Project, name: str, moment: float) -> None:
    """As a process on another machine has it."""
    file = project.session_dir / name / "claim.json"
    file.parent.mkdir(parents=True)
    claimant = {"invocation": "theirs", "host": "elsewhere", "boot_id": "b", "pid": 12, "process_start": 1.0}
    file.write_text(json.dumps({**claimant, "since": "2026-01-23"}))
    os.utime(file, (moment, moment))


def renew(file: Path, stop: threading.Event) -> None:
    while not stop.wait(0.5):
        os.utime(file)


@HERE_AND_IN_A_FLEET
def test_two_invocations_at_the_same_moment_share_the_session(counting: Project, how: tuple[str, ...]) -> None:
    counting.matrix(*(entry(f"e{number}", seconds=0.5) for number in range(6)))
    both = [counting.start("--bench-resume", *RECORDED, *how) for _ in range(2)]
    outcomes = [counting.outcome(process) for process in both]
    assert [outcome.code for outcome in outcomes] == [0, 0], outcomes
    assert sorted(starts(counting)) == [f"e{number}" for number in range(6)]
    assert sum(outcome.output.count("    Running e") for outcome in outcomes) == 6
    assert all(_verdict(counting.session_dir / f"e{number}") == "passed" for number in range(6))


@pytest.mark.parametrize("how", [(), ("-n1",), FLEET])
def test_what_another_invocation_runs_is_shown_as_running_elsewhere(counting: Project, how: tuple[str, ...]) -> None:
    counting.matrix(entry("theirs", seconds=600), entry("ours"), default_timeout_s=900)
    theirs = counting.start("--bench-resume", "-k", "theirs")
    try:
        wait_for_starts(counting, 1)
        outcome = counting.run("--bench-resume", "--bench-progress", "0.1", *how)
        assert outcome.code == 0, outcome.output
        assert starts(counting) == ["theirs", "ours"]
        assert outcome.has("1 entry was left to other invocations, which still run 1 of them")
        assert "2 of 2 done" not in outcome.output
        assert re.search(r"\b1 passed\b.*\b1 left to others\b", outcome.lines[-1])
    finally:
        theirs.send_signal(signal.SIGINT)
        theirs.communicate(timeout=60 * busyness())


def test_the_same_entry_twice_at_one_moment_is_refused_where_nobody_resumes(counting: Project) -> None:
    counting.write(
        "waits.py", COUNTS.replace("time.sleep(seconds)", "while not Path('go_on').exists(): time.sleep(0.05)")
    )
    counting.matrix({**entry("one"), "script": "waits.py"})
    process = counting.start()
    wait_for_starts(counting, 1)
    outcome = counting.run()
    assert outcome.code == 1
    assert "one: it is being run by process" in outcome.output
    (counting.folder / "go_on").touch()
    assert counting.outcome(process).code == 0
    assert starts(counting) == ["one"]


def _verdict(folder: Path) -> str:
    return str(json.loads((folder / "results.json").read_text())["verdict"])


KILLED_WHERE = """
import os, signal
from curator_bench.runner import run_records

def dies(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

if "DIES" in os.environ:
    module, _, name = os.environ["DIES"].rpartition(".")
    import importlib
    setattr(importlib.import_module(module), name, dies)
"""


def lines_of(project: Project, name: str) -> list[dict[str, object]]:
    file = project.session_dir / name / "results.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize(
    ("where", "runs_again"),
    [
        ("curator_bench.runner.judging.judge_of", True),
        ("curator_bench.runner.recording.finish_row", True),
        ("curator_bench.runner.run_records.publish", False),
        ("curator_bench.runner.run_records.add_lines", False),
    ],
)
def test_a_file_that_says_passed_is_right_wherever_pytest_is_killed(
    counting: Project, where: str, runs_again: bool
) -> None:
    """Before it is judged, before its row is complete, before results.json is in its place, before results.jsonl."""
    counting.write("conftest.py", KILLED_WHERE)
    counting.matrix(entry("one", requirements=[{"metric": "is_success", "exact_value": True}]))
    killed = counting.run(*RECORDED, DIES=where)
    assert killed.code == -signal.SIGKILL
    assert lines_of(counting, "one") == []
    results = counting.session_dir / "one" / "results.json"
    assert not results.exists() or not runs_again
    assert started_by(counting, "--bench-resume", *RECORDED) == (["one"] if runs_again else [])
    assert json.loads(results.read_text())["verdict"] == "passed"
    with sqlite3.connect(counting.folder / "runs.db") as database:
        passed = database.execute("select count(*) from test_run where verdict = 'passed'").fetchone()
    assert passed == (1,)


def test_lines_say_what_became_of_runs_with_their_requirements(counting: Project) -> None:
    unmet = [{"metric": "is_success", "exact_value": False}]
    counting.matrix(entry("met", repeat=2), entry("unmet", requirements=unmet), entry("broken", code=3))
    counting.run()
    keys = ("repeat", "verdict", "exit_code")
    told = {name: [tuple(line[key] for key in keys) for line in lines_of(counting, name)] for name in ("met", "unmet")}
    assert told == {"met": [(1, "passed", 0), (2, "passed", 0)], "unmet": [(1, "failed", 0)]}
    (broken,) = lines_of(counting, "broken")
    assert (broken["verdict"], broken["exit_code"], broken["schema_version"]) == ("crashed", 3, 1)
    ended = [str(line["ended_at"]) for line in lines_of(counting, "met")]
    assert sorted(ended) == ended
    assert ended[0] < ended[1]
