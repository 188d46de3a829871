"""Entries side by side in a fleet of this machine: verdicts, order, what pytest promises, what is left of it."""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import signal
import sqlite3
import struct
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from curator_bench.measure.processes import busyness

if TYPE_CHECKING:
    from end_to_end.conftest import Outcome, Project

pytestmark = pytest.mark.slow

NOTHING_LEFT_WITHIN_S = 5.0
PIDFD_GETFD = 438
TWO_CPUS = ("--bench-fleet", "local", "--bench-fleet-cpus", "2")
CONFTEST = """
import sys
import pytest
from pathlib import Path

def note(text):
    with Path("scopes").open("a") as file:
        file.write(text + "\\n")

@pytest.fixture(scope="session", autouse=True)
def of_the_session():
    note("session begins")
    yield
    note("session ends")

@pytest.fixture(scope="module", autouse=True)
def of_the_module(request):
    note(f"{request.node.name} begins")
    yield
    note(f"{request.node.name} ends")

def pytest_bench_run_finished(item, result):
    note(f"finished {result.name} attempt {result.attempt}")

def pytest_sessionfinish():
    Path("has_ray").write_text(str("ray" in sys.modules))
"""
ENVIRONMENT = """
import json, os, sys
from pathlib import Path
out = Path(sys.argv[-1])
(out / "params.json").write_text("{}")
(out / "metrics.json").write_text("{}")
(out / "environment.json").write_text(json.dumps(dict(os.environ)))
"""
CLUSTER = """
import json, sys
from pathlib import Path
import ray
ray.init(log_to_driver=False)
there = ray.cluster_resources()
out = Path(sys.argv[-1])
(out / "params.json").write_text("{}")
names = {"CPU": "cpus", "memory": "memory", "object_store_memory": "store"}
(out / "metrics.json").write_text(json.dumps({names[n]: there[n] for n in names}))
"""
# Is told to end in good order, notes it, takes its time, and notes that it came to its end; leaves a daemon.
LISTENS = """
import pathlib, signal, subprocess, sys, time
def told(*_):
    pathlib.Path("asked", sys.argv[1]).touch()
    time.sleep(2.5)
    pathlib.Path(sys.argv[1]).touch()
    sys.exit(1)
signal.signal(signal.SIGTERM, told)
subprocess.Popen(["sleep", "600"], start_new_session=True)
print("at work", flush=True)
time.sleep(600)
"""
DIFFERS = ("CURATOR_BENCH_RUN", "CURATOR_BENCH_EXECUTION", "CURATOR_BENCH_STAGES")


@pytest.fixture(scope="module")
def outcome(new_project: Callable[[], Project]) -> Outcome:
    """One session in which everything happens."""
    project = new_project()
    project.write("conftest.py", CONFTEST)
    project.write("environment.py", ENVIRONMENT)
    project.write("cluster.py", CLUSTER)
    project.write("test_after.py", "def test_python_benchmarks_come_last(): open('scopes', 'a').write('python\\n')")
    project.matrix(
        # They run at the same time, however late one of them starts, and the first one outlasts the second.
        project.entry("first", f"--sleep 1 --until {project.session_dir}/second/results.json", timeout_s=300),
        project.entry("second", f"--sleep 1 --until {project.session_dir}/first/logs/stdouterr.log", timeout_s=300),
        project.entry("fails", requirements=[{"metric": "is_success", "exact_value": False}]),
        project.entry("crashes", "--exit 3"),
        project.entry("slow", "--sleep 60", timeout_s=1),
        project.entry("skipped", requires=["no_such_package"]),
        project.entry("huge", ray={"num_cpus": 500}),
        project.entry("misses", "{dataset:nowhere,jsonl}", retries=1),
        project.entry("speaks", matrix={"words": ["日本語", "back\\slash"]}),
        {"name": "environment", "script": "environment.py", "env": {"OMP_NUM_THREADS": "3"}},
        {"name": "cluster", "script": "cluster.py", "ray": {"num_cpus": 1}},
        datasets=[{"name": "nowhere", "formats": [{"type": "jsonl", "path": "nowhere"}]}],
    )
    recorded = ("--benchmark", "--benchmark-db", "runs.db", "--junitxml", "junit.xml", "--bench-copy-to", "copies")
    found = project.run(*TWO_CPUS, "test_after.py", *recorded, FRUIT="pear")
    found.session_dir.joinpath("output").write_text(found.output)
    return found


def results(outcome: Outcome, name: str) -> dict[str, Any]:
    found: dict[str, Any] = outcome.json(name, "results.json")
    return found


def scopes(outcome: Outcome) -> list[str]:
    return (outcome.session_dir.parents[1] / "scopes").read_text().splitlines()


def test_each_entry_has_its_verdict_in_files_and_in_the_database(outcome: Outcome) -> None:
    expected = {
        "first": "passed",
        "second": "passed",
        "fails": "failed",
        "crashes": "crashed",
        "slow": "timeout",
        "skipped": "skipped",
        "huge": "error",
        "misses": "error",
        "environment": "passed",
        "cluster": "passed",
    }
    assert outcome.code == 1, outcome.output
    assert {name: results(outcome, name)["verdict"] for name in expected} == expected
    with sqlite3.connect(outcome.session_dir.parents[1] / "runs.db") as database:
        rows = database.execute(
            "SELECT name, verdict, attempt FROM test_run WHERE path = 'matrix.yaml' AND name NOT LIKE 'speaks%'"
        ).fetchall()
    assert sorted(rows) == sorted([*((name, verdict, 1) for name, verdict in expected.items()), ("misses", "error", 2)])


def test_each_attempt_has_its_line_in_results_jsonl(outcome: Outcome) -> None:
    """Also of those that never came to run: `huge` fits nowhere."""
    with sqlite3.connect(outcome.session_dir.parents[1] / "runs.db") as database:
        rows = database.execute(
            "SELECT uid, verdict FROM test_run WHERE name NOT LIKE 'speaks%' AND path = 'matrix.yaml'"
        )
        recorded = dict(rows.fetchall())
    lines = [json.loads(line) for file in outcome.session_dir.glob("*/results.jsonl") for line in file.open()]
    told = {line["uid"]: line["verdict"] for line in lines}
    assert len(lines) == len(told)
    assert told == recorded


def test_axis_values_may_hold_any_letter(outcome: Outcome) -> None:
    runs = [run for run in outcome.json("summary.json")["runs"] if run["name"].startswith("speaks")]
    assert [run["verdict"] for run in runs] == ["passed", "passed"]
    assert outcome.json("progress.json")["total"] == len(outcome.json("summary.json")["runs"])


def test_runs_overlap_and_results_come_in_the_order_they_arrive(outcome: Outcome) -> None:
    spans = [results(outcome, name) for name in ("first", "second")]
    began, ended = ([datetime.fromisoformat(span[key]) for span in spans] for key in ("started_at", "ended_at"))
    assert max(began) < min(ended)
    finished = [line for line in scopes(outcome) if line.startswith("finished")]
    assert finished.index("finished second attempt 1") < finished.index("finished first attempt 1")


def test_an_entry_that_no_node_is_large_enough_for_is_an_error_that_names_the_largest(outcome: Outcome) -> None:
    error = results(outcome, "huge")["error"]
    assert "CPU: 500" in error
    assert "the largest node" in error
    assert "CPU: 2" in error


def test_fixtures_of_wider_scope_are_set_up_once_and_python_benchmarks_come_last(outcome: Outcome) -> None:
    lines = scopes(outcome)
    assert [lines.count(line) for line in ("session begins", "session ends", "matrix.yaml begins")] == [1, 1, 1]
    assert lines[-3:] == ["python", "test_after.py ends", "session ends"]
    assert lines.index("matrix.yaml ends") < lines.index("test_after.py begins")


def test_the_pytest_process_does_not_speak_to_ray(outcome: Outcome) -> None:
    assert (outcome.session_dir.parents[1] / "has_ray").read_text() == "False"


def test_junit_tells_how_long_the_runs_took(outcome: Outcome) -> None:
    junit = ET.parse(outcome.session_dir.parents[1] / "junit.xml")
    took = {case.get("name"): float(case.get("time", 0)) for case in junit.iter("testcase")}
    assert took["first"] > took["second"] >= 1


def test_the_environment_of_a_script_is_that_of_a_run_without_a_fleet(outcome: Outcome, project: Project) -> None:
    def environment(of: Outcome) -> dict[str, str]:
        found = of.json("environment", "benchmark_results", "environment.json")
        return {name: value for name, value in found.items() if name not in DIFFERS and "TEST" not in name}

    project.write("environment.py", ENVIRONMENT)
    project.matrix({"name": "environment", "script": "environment.py", "env": {"OMP_NUM_THREADS": "3"}})
    local = project.run(FRUIT="pear")
    assert environment(outcome) == environment(local)


def test_the_cluster_of_an_entry_has_its_slice_of_the_machine(outcome: Outcome) -> None:
    metrics = results(outcome, "cluster")["metrics"]
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert metrics["cpus"] == 1
    assert metrics["memory"] + metrics["store"] <= physical / 2
    assert metrics["store"] <= 0.3 * physical / 2


def test_folders_are_copied_as_they_are(outcome: Outcome) -> None:
    """With --bench-copy-to; more of it stands in tests/sinks/test_copying.py."""
    copied = outcome.session_dir.parents[1] / "copies" / "s"
    for name in ("first", "crashes", "cluster"):
        kept = outcome.session_dir / name
        assert (copied / name / "results.json").read_bytes() == (kept / "results.json").read_bytes()
    assert (copied / "summary.json").read_bytes() == (outcome.session_dir / "summary.json").read_bytes()


def test_lines_say_where_runs_are(outcome: Outcome) -> None:
    assert outcome.has("Fleet: ", "Running first on ")
    assert outcome.output.count("Running first") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--bench-fleet", "local", "-n", "2"], "-n with --bench-fleet"),
        (["--bench-max-runs", "2"], "--bench-max-runs has an effect only with --bench-fleet"),
        (["--bench-fleet", "local", "--bench-gpus", "0,0"], "expected different numbers or ids"),
        (["--bench-fleet", "local", "--bench-max-runs", "0"], "a whole number of at least 1"),
        (["--bench-fleet", "local", "--bench-runs-per-gpu", "x"], "a whole number of at least 1"),
        (["--bench-fleet", "127.0.0.1:1", "--bench-fleet-cpus", "2"], "--bench-fleet-cpus is for --bench-fleet local"),
        (["--bench-fleet", "local", "--bench-results", "script.py"], "results cannot be written"),
        (["--bench-fleet", "locl"], "expected local, auto, HOST:PORT or ray://HOST:PORT"),
        (["--bench-fleet", "127.0.0.1:99999"], "expected local, auto, HOST:PORT or ray://HOST:PORT"),
        (["--bench-fleet", "127.0.0.1:1"], "nothing accepts connections there"),
        (["--bench-fleet", "ray://127.0.0.1:1"], "nothing accepts connections there"),
    ],
)
def test_what_cannot_be_meant_is_one_message(project: Project, options: list[str], message: str) -> None:
    project.matrix(project.entry("one"))
    outcome = project.run(*options)
    assert outcome.code == 4, outcome.output
    errors = [line for line in outcome.lines if line.startswith("ERROR")]
    assert len(errors) == 1
    assert message in errors[0]


def test_with_x_the_first_failure_ends_it_and_what_ran_is_interrupted(project: Project) -> None:
    project.matrix(
        project.entry("fails", f"--exit 1 --until {project.session_dir}/long0/logs/stdouterr.log", timeout_s=300),
        *(project.entry(f"long{number}", "--sleep 600", timeout_s=900) for number in range(3)),
    )
    outcome = project.run(*TWO_CPUS, "-x")  # whose patience is shorter than that
    assert outcome.code == 1, outcome.output
    assert outcome.json("long0", "results.json")["verdict"] == "interrupted"
    assert gone(project)


def test_no_more_run_at_once_than_asked_for_and_lf_runs_what_failed(project: Project) -> None:
    project.matrix(*(project.entry(name, "--sleep 0.5 --exit 1" if name == "b" else "--sleep 0.5") for name in "abc"))
    own = project.command
    project.command = lambda *options: [word for word in own(*options) if "cacheprovider" not in word]  # type: ignore[method-assign]
    outcome = project.run(*TWO_CPUS, "--bench-max-runs", "1")
    assert outcome.code == 1, outcome.output
    runs = sorted(outcome.json("summary.json")["runs"], key=lambda run: run["started_at"])
    assert all(before["ended_at"] <= after["started_at"] for before, after in itertools.pairwise(runs))
    again = project.run(*TWO_CPUS, "--lf")
    assert "1 failed, 2 deselected" in again.lines[-1] or "1 failed in" in again.lines[-1]
    assert again.output.count("Running ") == 1
    assert again.has("Running b on ")


def under_way(project: Project, session: subprocess.Popen[str], *names: str) -> None:
    """Waits until the scripts of these entries have said something, however busy the machine is."""
    logs = [project.session_dir / name / "logs" / "stdouterr.log" for name in names]
    while not all(log.exists() and "at work" in log.read_text() for log in logs):
        assert session.poll() is None, f"{names} did not start"
        time.sleep(0.05)


def test_ctrl_c_once_records_what_ran_as_interrupted_and_leaves_nothing(project: Project) -> None:
    project.write("listens.py", LISTENS)
    entries = ({"name": f"long{number}", "script": "listens.py", "args": f"told{number}"} for number in range(3))
    project.matrix(*entries, default_timeout_s=600)
    process = project.start(*TWO_CPUS, "--benchmark", "--benchmark-db", "runs.db")
    (project.folder / "asked").mkdir()
    under_way(project, process, "long0", "long1")
    workers = [worker_of(project, f"told{number}") for number in range(2)]
    process.send_signal(signal.SIGINT)
    while len([*project.folder.glob("asked/*")]) < 2 and process.poll() is None:
        time.sleep(0.01)
    for worker in workers:  # both Ray and our own thread interrupt a run, and the second may be late
        worker.send_signal(signal.SIGINT)
    outcome = project.outcome(process)
    assert outcome.code == 2, outcome.output
    assert "\nTo continue: the same command with --bench-resume --bench-session s\n" in outcome.output
    with sqlite3.connect(project.folder / "runs.db") as database:
        rows = database.execute("SELECT name, verdict FROM test_run ORDER BY name").fetchall()
    assert rows == [("long0", "interrupted"), ("long1", "interrupted")]
    assert sorted(file.name for file in project.folder.glob("told*")) == ["told0", "told1"]
    assert gone(project)


def worker_of(project: Project, word: str) -> psutil.Process:
    """The worker of the fleet that runs the script with this argument."""
    script = next(one.pid for one in project.processes() if word.encode() in command_line(one.pid).split(b"\0"))
    return next(one for one in psutil.Process(script).parents() if one.cmdline()[0].startswith("ray::"))


def gone(project: Project) -> bool:
    """Also the guards of workers, which look more than once, and so many times longer as the machine is busy."""
    deadline = time.monotonic() + 2 * NOTHING_LEFT_WITHIN_S * busyness()
    while project.processes() and time.monotonic() < deadline:
        time.sleep(0.1)
    return not project.processes()


def test_a_worker_that_died_is_tried_again(project: Project) -> None:
    project.write(
        "kills.py",
        """
        import pathlib, sys, time
        import psutil
        again = pathlib.Path("again")
        if not again.exists():
            again.touch()
            next(one for one in psutil.Process().parents() if one.cmdline()[0].startswith("ray::")).kill()
            time.sleep(60)
        out = pathlib.Path(sys.argv[-1])
        (out / "params.json").write_text("{}")
        (out / "metrics.json").write_text("{}")
        """,
    )
    project.matrix({"name": "one", "script": "kills.py", "retries": 1}, project.entry("beside", "--sleep 3"))
    outcome = project.run(*TWO_CPUS, "--benchmark", "--benchmark-db", "runs.db")
    assert outcome.code == 0, outcome.output
    assert outcome.json("one", "results.json")["attempt"] == 2
    assert outcome.has("Once more one: attempt 1: its worker on ")
    with sqlite3.connect(project.folder / "runs.db") as database:
        rows = database.execute("SELECT name, attempt, verdict FROM test_run ORDER BY name, attempt").fetchall()
    assert rows == [("beside", 1, "passed"), ("one", 1, "error"), ("one", 2, "passed")]


@pytest.mark.skipif(sys.platform != "linux", reason="needs pidfd_getfd(2)")
@pytest.mark.parametrize("message", [b"no pickle", b"\x80\x05cno_such_module\nThing\n."], ids=["garbage", "unknown"])
def test_a_message_of_the_driver_that_cannot_be_read_ends_the_fleet_and_not_the_patience(
    project: Project, message: bytes
) -> None:
    """As from a driver that was cut off in the middle of a message, or that is of another version."""
    project.matrix(project.entry("one", "--sleep 600"), default_timeout_s=600)
    session = project.start(*TWO_CPUS)
    under_way(project, session, "one")
    driver = next(one.pid for one in project.processes() if b"driver_program" in command_line(one.pid))
    connection = theirs(driver, int(command_line(driver).split(b"\0")[-2]))
    os.write(connection, struct.pack("!i", len(message)) + message)
    os.close(connection)
    outcome = project.outcome(session)
    assert outcome.code == pytest.ExitCode.TESTS_FAILED, outcome.output
    assert "a message of the fleet's driver cannot be read: " in outcome.output
    assert "Traceback" not in outcome.output
    assert project.outcome_of("one")["verdict"] == "error"
    assert gone(project)


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # ended meanwhile
        return b""


def theirs(pid: int, descriptor: int) -> int:
    """Return a descriptor of ours for what a descriptor of another process stands for."""
    process = os.pidfd_open(pid)
    try:
        found: int = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, process, descriptor, 0)
    finally:
        os.close(process)
    assert found >= 0, os.strerror(ctypes.get_errno())
    return found
