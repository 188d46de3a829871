"""Ctrl-C once and twice, at chosen moments: one message, exit code 2, rows right, nothing left."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from end_to_end.conftest import Outcome, Project

from curator_bench.measure.processes import busyness

CONFTEST = """
import os, signal
import pytest

os.environ["PYTEST_TO_STOP"] = str(os.getpid())


def press(moment):
    if os.environ.get("MOMENT") == moment and not hasattr(pytest, "pressed"):
        pytest.pressed = True
        for _ in range(int(os.environ["TIMES"])):
            os.kill(os.getpid(), signal.SIGINT)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    press("configuring")


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    press("starting")


def pytest_collection_modifyitems(items):
    press("collecting")


def pytest_bench_run_started(item, plan):
    press("a run starts")


def pytest_bench_run_finished(item, result):
    press("a run has finished")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report):
    press(f"{report.when} reported")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish():
    press("ending")


def pytest_terminal_summary():
    press("summing up")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure():
    press("leaving")
"""
SCRIPT = """
import json, os, pathlib, signal, sys, time

results = pathlib.Path(sys.argv[-1])
results.joinpath("params.json").write_text("{}")
results.joinpath("metrics.json").write_text(json.dumps({"is_success": True}))
if os.environ.get("MOMENT") == sys.argv[1]:
    for _ in range(int(os.environ["TIMES"])):
        os.killpg(os.getpgid(int(os.environ["PYTEST_TO_STOP"])), signal.SIGINT)
        time.sleep(float(sys.argv[2]))
    time.sleep(60)
"""
BEFORE = ("configuring", "starting", "collecting")
IN_BETWEEN = ("a run starts", "a run has finished", "setup reported", "call reported", "teardown reported")
AT_THE_END = ("ending", "summing up")


@pytest.fixture
def stopped(project: Project) -> Project:
    project.write("conftest.py", CONFTEST)
    project.write("stopping.py", SCRIPT)
    entries = [
        project.entry(name, f"{moment} 0.2", script="stopping.py")
        for name, moment in (("a", "never"), ("b", "running"), ("c", "never"))
    ]
    project.matrix(*entries, sinks=[{"name": "jsonl", "path": "told.jsonl"}])
    return project


def assert_in_order(project: Project, outcome: Outcome, rows: dict[str, str]) -> None:
    assert outcome.code == pytest.ExitCode.INTERRUPTED, outcome.output
    assert "Traceback" not in outcome.output
    assert "INTERNALERROR" not in outcome.output
    said = [
        line for line in outcome.lines if line.startswith("!!") and ("KeyboardInterrupt" in line or "Ctrl-C" in line)
    ]
    assert len(said) == 1, outcome.output
    assert recorded(project) == rows
    assert {name: project.outcome_of(name)["verdict"] for name in rows} == rows
    assert not project.processes()


def recorded(project: Project) -> dict[str, str]:
    database = project.folder / "benchmark.db"
    if not database.exists():
        return {}
    with closing(sqlite3.connect(database)) as opened:
        if not opened.execute("SELECT 1 FROM sqlite_master WHERE name = 'test_run'").fetchone():
            return {}
        assert not opened.execute('SELECT name FROM test_run WHERE "end" IS NULL').fetchall()
        return dict(opened.execute("SELECT name, verdict FROM test_run").fetchall())


@pytest.mark.parametrize("times", ["1", "2"])
@pytest.mark.parametrize("moment", BEFORE)
def test_before_anything_runs(stopped: Project, moment: str, times: str) -> None:
    outcome = stopped.run("--benchmark", MOMENT=moment, TIMES=times)
    assert_in_order(stopped, outcome, {})


@pytest.mark.parametrize("times", ["1", "2"])
@pytest.mark.parametrize("moment", IN_BETWEEN)
def test_around_a_run_what_has_begun_is_recorded_whole(stopped: Project, moment: str, times: str) -> None:
    outcome = stopped.run("--benchmark", MOMENT=moment, TIMES=times)
    verdict = "interrupted" if moment == "a run starts" else "passed"
    assert_in_order(stopped, outcome, {"a": verdict})


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "with a worker"])
@pytest.mark.parametrize("times", ["1", "2"])
def test_in_the_middle_of_a_run(stopped: Project, times: str, options: tuple[str, ...]) -> None:
    if options:
        pytest.importorskip("xdist")
    outcome = stopped.run("--benchmark", *options, MOMENT="running", TIMES=times)
    assert_in_order(stopped, outcome, {"a": "passed", "b": "interrupted"})
    told = (stopped.folder / "told.jsonl").read_text()
    assert '"interrupted"' in told
    assert '"passed"' in told
    if not options:
        assert re.search(r"^\S*matrix\.yaml:\d+: KeyboardInterrupt$", outcome.output, re.MULTILINE), outcome.output
        assert not re.search(r"curator_bench/.*KeyboardInterrupt", outcome.output)


@pytest.mark.parametrize("times", ["1", "2"])
@pytest.mark.parametrize("moment", AT_THE_END)
def test_while_the_session_ends_everything_is_kept(stopped: Project, moment: str, times: str) -> None:
    outcome = stopped.run("--benchmark", MOMENT=moment, TIMES=times)
    assert_in_order(stopped, outcome, dict.fromkeys("abc", "passed"))


@pytest.mark.slow
@pytest.mark.parametrize(("process", "times"), [("head_program.py", 1), ("gcs_server", 2), ("raylet/raylet", 1)])
def test_while_a_cluster_starts(project: Project, process: str, times: int) -> None:
    project.matrix(project.entry("a", "--sleep 60", ray={"num_cpus": 1, "num_gpus": 0}), project.entry("b"))
    session = project.start("--benchmark")
    began = time.monotonic()
    while not any(process in command(one.pid) for one in project.processes()):
        assert time.monotonic() - began < 60 * busyness()
        assert session.poll() is None
        time.sleep(0.005)
    for _ in range(times):
        os.killpg(session.pid, signal.SIGINT)
        time.sleep(0.2)
    assert_in_order(project, project.outcome(session), {"a": "interrupted"})
    notes = (folder / "owner.json" for folder in Path("/tmp").glob("cb-*"))
    assert not [note for note in notes if note.exists() and json.loads(note.read_text())["pid"] == session.pid]


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:  # ended meanwhile
        return ""


def test_when_all_is_said_it_changes_nothing(stopped: Project) -> None:
    outcome = stopped.run("--benchmark", MOMENT="leaving", TIMES="2")
    assert outcome.code in (0, pytest.ExitCode.INTERRUPTED)
    assert "Traceback" not in outcome.output
    assert recorded(stopped) == dict.fromkeys("abc", "passed")


def test_a_project_without_benchmarks_has_pythons_own_ctrl_c(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import signal\ndef test_it():\n    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
