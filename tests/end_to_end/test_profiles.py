"""Profiles of entries as their users get them: extra runs that leave a profile, and nothing else."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from end_to_end.test_gates import LEVEL, Gated

from curator_bench.store.database import database_url, open_for_reading
from curator_bench.store.profiles import profiles_of
from curator_bench.values import WAITING, Profile

if TYPE_CHECKING:
    from end_to_end.conftest import Project

pytestmark = pytest.mark.slow

RECORDED = ("--benchmark", "--benchmark-db", "benchmark.db")
HIDES = """
import ctypes, pathlib, sys, time
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: only who has CAP_SYS_PTRACE may look into this process
time.sleep(4)  # py-spy looks for Python for a second before it gives up
pathlib.Path(sys.argv[-1], "metrics.json").write_text("{}")
"""
WITHOUT_THE_RIGHT = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(24, 19, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_SYS_PTRACE: has effect for root
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""

ON_RAY = """
import json, pathlib, sys, time
import ray

@ray.remote
def crunch():
    began = time.process_time()
    while time.process_time() - began < 1.5:
        pass

@ray.remote
def pause():
    time.sleep(1.5)

ray.init()
ray.get([crunch.remote(), pause.remote()])
folder = pathlib.Path(sys.argv[-1])
folder.joinpath("params.json").write_text("{}")
folder.joinpath("metrics.json").write_text(json.dumps({"n": 1}))
"""


@pytest.fixture
def gated(project: Project) -> Gated:
    return Gated(project)


def rows(project: Project) -> list[tuple[str, str, int]]:
    with closing(sqlite3.connect(project.folder / "benchmark.db")) as opened:
        return opened.execute("select name, verdict, attempt from test_run order by id").fetchall()


def recorded(project: Project) -> dict[str, dict[str, Profile]]:
    """The profiles in the database by name of the entry and profiler."""
    database = open_for_reading(database_url(str(project.folder / "benchmark.db")))
    assert database is not None
    with database, database.reading() as connection:
        uids = {row[0]: row[1] for row in connection.exec_driver_sql("select uid, name from test_run")}
        found = profiles_of(connection, uids)
    return {uids[uid]: {one.profiler: one for one in profiles} for uid, profiles in found.items()}


def test_runs_of_a_hunt_ignore_the_ini_key(project: Project) -> None:
    project.matrix(project.entry("one"))
    refused = project.run("-obench_profile=py-spi")
    assert refused.code == 4
    outcome = project.run("-obench_profile=py-spi", CURATOR_BENCH_HUNT="ab")
    assert outcome.code == 0, outcome.output


def test_each_entry_has_its_profiles_in_its_folder_and_in_the_database_and_one_row(project: Project) -> None:
    project.matrix(project.entry("sleeps", "--sleep 1"), project.entry("breaks", "--exit 3"))
    outcome = project.run(*RECORDED, "--bench-profile", "py-spy,memray", "-vv")
    assert outcome.code == 1
    assert rows(project) == [("sleeps", "passed", 1), ("breaks", "crashed", 1)]
    assert len((project.session_dir / "sleeps" / "results.jsonl").read_text().splitlines()) == 1
    profiles = recorded(project)
    assert set(profiles) == {"sleeps"}
    assert set(profiles["sleeps"]) == {"py-spy", "memray"}
    waiting = {stack: count for stack, count in profiles["sleeps"]["py-spy"].stacks.items() if stack[-1] == WAITING}
    assert waiting[("script:<module>", WAITING)] > 50
    folder = project.session_dir / "sleeps" / "artifacts" / "profiles"
    for profiler in ("py-spy", "memray"):
        assert sorted(path.name for path in (folder / profiler).iterdir()) == ["speedscope.json", "stacks.txt"]
    assert not (project.session_dir / "sleeps" / "profile_1").exists()
    assert project.processes() == frozenset()


def test_a_profiler_that_is_unknown_or_not_installed_is_a_usage_error(project: Project, tmp_path: Path) -> None:
    project.matrix(project.entry("sleeps"))
    unknown = project.run("--bench-profile", "py-spi")
    assert unknown.code == 4
    assert unknown.has("ERROR: unknown profiler 'py-spi'; expected py-spy, memray, module:Class, ")
    project.write(
        "own.py", "from curator_bench import Profiler\nclass Paid(Profiler):\n    missing = lambda: 'buy it'\n"
    )
    missing = project.outcome(project.start("--bench-profile", "own:Paid", PYTHONPATH=str(project.folder)))
    assert (missing.code, missing.has("ERROR: the profiler own:Paid cannot be used: buy it")) == (4, True)
    wrong = project.run("--bench-profile", "py-spy", "-obench_profile_on=sometimes")
    assert (wrong.code, wrong.has("expected always or regression")) == (4, True)
    assert not project.session_dir.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: processes that may not be looked into")
def test_where_looking_into_processes_is_forbidden_the_run_says_what_to_do(project: Project) -> None:
    project.write("hides.py", HIDES)
    project.matrix(project.entry("hides", script="hides.py"))
    python, *words = project.command("--bench-profile", "py-spy")
    command = [python, "-c", WITHOUT_THE_RIGHT, *words]
    project.command = lambda *options: command  # type: ignore[method-assign]
    outcome = project.outcome(project.start())
    assert outcome.code == 0, outcome.output
    assert outcome.has(
        "warning: hides: the profiler py-spy: py-spy may not look into other processes here; run as root"
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_whatever_stops_pytest_while_it_profiles_leaves_nothing_running_and_the_run_as_measured(
    project: Project, number: signal.Signals
) -> None:
    project.matrix(project.entry("long", "--sleep 3"))
    process = project.start(*RECORDED, "--bench-profile", "py-spy")
    recording = project.session_dir / "long" / "artifacts" / "profiles" / "py-spy"
    deadline = time.monotonic() + 60
    while not list(recording.glob(".script_everything.log")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert any("py-spy" in Path(f"/proc/{one.pid}/cmdline").read_text() for one in project.processes())
    os.kill(process.pid, number)
    project.outcome(process)
    while project.processes() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert project.processes() == frozenset()
    assert rows(project) == [("long", "passed", 1)]
    assert project.outcome_of("long")["verdict"] == "passed"


def test_only_a_confirmed_regression_is_profiled_if_that_was_asked_for(gated: Gated) -> None:
    gated.project.write("pytest.ini", "[pytest]\nbench_profile = memray\nbench_profile_on = regression\n")
    gated.entry(1.01, 1.5)
    gated.remember(LEVEL)
    folder = gated.project.session_dir / "sort"
    assert gated.run(*RECORDED, "--bench-confirm", "1").code == 0
    assert not (folder / "artifacts" / "profiles").exists()
    outcome = gated.run(*RECORDED, "--bench-confirm", "1")
    assert outcome.code == 1, outcome.output
    assert gated.project.outcome_of("sort")["attempt"] == 2
    assert (folder / "attempt_2" / "artifacts" / "profiles" / "memray" / "stacks.txt").is_file()
    assert set(recorded(gated.project)["sort"]) == {"memray"}


def test_workers_of_ray_are_profiled_here_and_in_a_fleet(project: Project) -> None:
    project.write("on_ray.py", ON_RAY)
    project.matrix({"name": "on_ray", "script": "on_ray.py", "ray": {"num_cpus": 2}})
    for where in ((), ("--bench-fleet", "local", "--bench-fleet-cpus", "2")):
        outcome = project.run(*RECORDED, "--bench-profile", "py-spy", *where, "--bench-session", f"t{len(where)}")
        assert outcome.code == 0, outcome.output
        assert "profiler" not in outcome.output, outcome.output
    with closing(sqlite3.connect(project.folder / "benchmark.db")) as opened:
        uids = [uid for (uid,) in opened.execute("select uid from test_run order by id")]
    database = open_for_reading(database_url(str(project.folder / "benchmark.db")))
    assert database is not None
    with database, database.reading() as connection:
        found = profiles_of(connection, uids)
    assert len(uids) == len(found) == 2
    for [profile] in found.values():
        last = {stack[-1] for stack in profile.stacks}
        slept = {stack for stack in profile.stacks if stack[-2:] == ("on_ray:pause", WAITING)}
        assert "on_ray:crunch" in last, "a task that computes"
        assert slept, "a task that waits"
        assert not any("main_loop" in stack[-2:][0] for stack in profile.stacks if stack[-1] == WAITING)
        assert not any("agent" in stack[0] for stack in profile.stacks)


PYTHON_BENCHMARK = """
import time

def crunch(seconds):
    began = time.process_time()
    while time.process_time() - began < seconds:
        sum(range(1000))

def test_sorting(benchmark_time, record_metric):
    with benchmark_time:
        crunch(1.0)
        time.sleep(1.0)
    record_metric("n", 1)

def test_fails(benchmark_time):
    with benchmark_time:
        crunch(0.1)
    assert False

def test_that_is_none():
    pass
"""


def test_a_python_benchmark_is_profiled_in_a_pytest_of_its_own(project: Project) -> None:
    project.write("test_python.py", PYTHON_BENCHMARK)
    words = ["test_python.py" if word == "matrix.yaml" else word for word in project.command(*RECORDED)]
    project.command = lambda *options: [*words, *options]  # type: ignore[method-assign]
    done = project.run("--bench-profile", "py-spy")
    assert done.code == 1, done.output
    assert [(name, verdict) for name, verdict, _ in rows(project)] == [
        ("test_sorting", "passed"),
        ("test_fails", "failed"),
    ]
    assert done.has("the profiler py-spy: its run did not pass (crashed)")
    [(name, profiles)] = recorded(project).items()
    stacks = profiles["py-spy"].stacks
    assert name == "test_sorting"
    assert any(stack[:2] == ("test_python:test_sorting", "test_python:crunch") for stack in stacks)
    assert ("test_python:test_sorting", WAITING) in stacks
    assert list(project.session_dir.glob("*/artifacts/profiles/py-spy/speedscope.json"))
