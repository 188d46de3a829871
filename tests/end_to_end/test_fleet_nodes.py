"""A fleet that the user has started, of several nodes: it is used and left as it was, also when a node dies."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from end_to_end.ray_nodes import HeadByHand, QuickHead, RayNodes, can_hide_folders

import curator_bench
from curator_bench.measure.processes import busyness, find_processes

if TYPE_CHECKING:
    from end_to_end.conftest import Outcome, Project

pytestmark = pytest.mark.slow

# Ends its Ray worker, as a node that is out of order would; elsewhere it does well.
BAD_ON_ONE_NODE = """
import os, pathlib, sys, time
import psutil
if "BAD_NODE" in os.environ:
    next(one for one in psutil.Process().parents() if one.cmdline()[0].startswith("ray::")).kill()
    time.sleep(60)
time.sleep(0.5)
out = pathlib.Path(sys.argv[-1])
(out / "params.json").write_text("{}")
(out / "metrics.json").write_text("{}")
"""


ASKS = """
import json, os, pathlib, sys
print("at work", flush=True)
out = pathlib.Path(sys.argv[-1])
(out / "params.json").write_text("{}")
helped = pathlib.Path(sys.argv[1]).read_text() == "helped"
fruits = [os.environ.get(name) for name in ("FRUIT", "OTHER_FRUIT")]
is_sent = "working_dir_files" in str(pathlib.Path.cwd())
(out / "metrics.json").write_text(json.dumps({"helped": helped, "is_sent": is_sent, "fruits": fruits}))
(out.parent / "artifacts" / "kept.txt").write_text("kept")
with (out.parent / "artifacts" / "large").open("wb") as large:
    large.truncate(100 << 20)
"""


GIVES_UP_SOON = '--system-config={"gcs_rpc_server_reconnect_timeout_s": 5}'
"""Ray's programs wait for a head that is gone for a minute, unless the head has told them otherwise."""


@pytest.fixture
def nodes() -> Iterator[RayNodes]:
    with QuickHead() as started:
        yield started


@pytest.fixture(scope="module")
def standing() -> Iterator[RayNodes]:
    """Two nodes, for tests that leave them as they were."""
    with QuickHead() as started:
        started.join()
        yield started


def run_on(nodes: RayNodes, project: Project, *options: str, **variables: str) -> subprocess.Popen[str]:
    recorded = ("--benchmark", "--benchmark-db", "runs.db")
    words = ("--bench-fleet", nodes.address, *recorded, *options)
    return project.start(*words, output=subprocess.PIPE, **nodes.variables(), **variables)  # type: ignore[arg-type]


def left_by(run: dict[str, Any]) -> set[str]:
    """Files and folders, but for what only one of them with a cluster leaves."""
    top = Path(run["directory"])
    return {name for path in top.rglob("*") if "ray_" not in (name := path.relative_to(top).as_posix())}


def rows(project: Project) -> list[tuple[str, int, str]]:
    with sqlite3.connect(project.folder / "runs.db") as database:
        return database.execute("SELECT name, attempt, verdict FROM test_run ORDER BY name, attempt").fetchall()


def wait_for_log_lines(project: Project, count: int) -> None:
    deadline = time.monotonic() + 90 * busyness()
    while time.monotonic() < deadline:
        logs = project.session_dir.glob("*/logs/stdouterr.log")
        if sum("at work" in log.read_text() for log in logs) >= count:
            return
        time.sleep(0.05)
    pytest.fail("the nodes are not busy")


def test_a_node_that_dies_while_busy_costs_no_entry_its_verdict(nodes: RayNodes, project: Project) -> None:
    nodes.join()
    names = [f"e{number}" for number in range(6)]
    killed = project.folder / "killed"
    project.matrix(*(project.entry(name, f"--until {killed}", retries=2, timeout_s=300) for name in names))
    process = run_on(nodes, project)
    wait_for_log_lines(project, 2)
    nodes.kill_the_last()
    killed.touch()
    outcome = project.outcome(process)
    assert outcome.code == 0, outcome.output
    found = rows(project)
    assert [name for name, _, verdict in found if verdict == "passed"] == names
    assert {verdict for _, _, verdict in found} == {"passed", "error"}
    lines = [json.loads(line) for file in project.session_dir.glob("*/results.jsonl") for line in file.open()]
    assert sorted((line["name"], line["attempt"], line["verdict"]) for line in lines) == found
    lost = [line["error"] for line in lines if line["verdict"] == "error"]
    assert all(re.match(r"its worker on \S+/[0-9a-f]{8} \(", error) for error in lost)  # of two nodes of this host
    summary = outcome.json("summary.json")
    assert summary["counts"] == {"passed": len(names)}
    left = find_processes(project.mark) - find_processes(nodes.mark)
    assert not left
    assert nodes.answers()


def test_when_the_cluster_is_gone_every_entry_has_its_verdict(project: Project) -> None:
    names = [f"e{number}" for number in range(4)]
    project.matrix(*(project.entry(name, "--sleep 60", retries=1) for name in names))
    with HeadByHand(options=[GIVES_UP_SOON]) as nodes:
        process = run_on(nodes, project)
        wait_for_log_lines(project, 1)
        nodes.kill_all()
        outcome = project.outcome(process)
    assert outcome.code == 1, outcome.output
    assert outcome.json("summary.json")["counts"] == {"error": len(names)}
    assert f"{len(names)} failed" in outcome.lines[-1]


def test_a_node_on_which_two_entries_meet_errors_is_left_out(nodes: RayNodes, project: Project) -> None:
    nodes.join(BAD_NODE="1")
    project.write("bad.py", BAD_ON_ONE_NODE)
    project.matrix(*({"name": f"e{number}", "script": "bad.py", "retries": 1} for number in range(8)))
    outcome = project.outcome(run_on(nodes, project))
    assert outcome.code == 0, outcome.output
    errors = [name for name, _, verdict in rows(project) if verdict == "error"]
    assert 2 <= len(errors) < 8  # those that Ray had given to it by then
    assert outcome.has("not used any more: node ")


def test_a_wrong_token_is_one_message(standing: RayNodes, project: Project) -> None:
    project.matrix(project.entry("one"))
    outcome: Outcome = project.run("--bench-fleet", standing.address, **standing.variables("f" * 40))
    assert outcome.code == 4, outcome.output
    errors = [line for line in outcome.lines if line.startswith("ERROR")]
    assert len(errors) == 1
    assert "cannot be used" in errors[0]


@pytest.mark.skipif(not can_hide_folders(), reason="needs root, to hide folders from a node")
def test_what_a_machine_lacks_is_sent_to_it_and_results_come_back(nodes: RayNodes, project: Project) -> None:
    nodes.join(project.folder, Path(curator_bench.__file__).parent, options=['--resources={"away": 1}'])
    project.write("asks.py", ASKS)
    here, there = (
        {"num_cpus": 1, "num_gpus": 0, "object_store_size": 100_000_000, "resources": {where: 1}}
        for where in ("home", "away")
    )
    project.matrix(
        {"name": "here", "script": "asks.py", "args": "helper.txt", "ray": here},
        {"name": "there", "script": "asks.py", "args": "helper.txt", "ray": there, "env": {"FRUIT": "${FRUIT}"}},
    )
    project.write("helper.txt", "helped")
    outcome = project.outcome(run_on(nodes, project, FRUIT="pear", OTHER_FRUIT="plum"))
    assert outcome.code == 0, outcome.output
    assert outcome.has("curator_bench is sent to ", "is sent to ", "results come back from "), outcome.output
    here, there = (outcome.json(name, "results.json") for name in ("here", "there"))
    assert here["metrics"]["helped"] is there["metrics"]["helped"] is True
    assert (there["metrics"]["fruits.0"], there["metrics"]["fruits.1"]) == ("pear", None)  # what env: hands on, no more
    assert (here["metrics"]["is_sent"], there["metrics"]["is_sent"]) == (False, True)
    assert there["log_path"].startswith(str(project.session_dir))
    assert Path(there["log_path"]).read_text() == "at work\n"
    assert left_by(there) == left_by(here)
    assert Path(there["directory"], "artifacts", "kept.txt").read_text() == "kept"
    assert Path(there["directory"], "artifacts", "large").stat().st_size == 100 << 20
    assert not there["warnings"]
    assert not list(project.session_dir.glob("fleet/token*"))


@pytest.mark.skipif(not can_hide_folders(), reason="needs root, to hide folders from a node")
def test_a_worker_that_is_killed_far_from_home_leaves_no_folder(nodes: RayNodes, project: Project) -> None:
    nodes.join(project.folder, options=['--resources={"away": 1}'])
    ray = {"num_cpus": 1, "num_gpus": 0, "resources": {"away": 1}}
    project.matrix(project.entry("there", "--sleep 60", ray=ray))
    session = run_on(nodes, project)
    worker = wait_for_worker(nodes)
    folders = [note.parent for note in Path("/tmp").glob("cb-*/owner.json") if owner(note) == worker]
    assert folders
    os.kill(worker, signal.SIGKILL)
    outcome = project.outcome(session)
    assert outcome.code == 1, outcome.output
    deadline = time.monotonic() + 20 * busyness()
    while left := [folder for folder in folders if folder.exists()]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def wait_for_worker(nodes: RayNodes) -> int:
    """Wait until a worker has started its script."""
    deadline = time.monotonic() + 90 * busyness()
    while time.monotonic() < deadline:
        for one in find_processes(nodes.mark):
            with suppress(psutil.Error):
                process = psutil.Process(one.pid)
                if any(word.endswith("/script.py") for word in process.cmdline()):
                    return next(each.pid for each in process.parents() if each.cmdline()[0].startswith("ray::"))
        time.sleep(0.05)
    pytest.fail("no worker is busy")


def owner(note: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(json.loads(note.read_text())["pid"])
    return None


WRITES_LARGE_FILES = """
import os, pathlib, sys, time
out = pathlib.Path(sys.argv[-1])
for number in range(3):
    (out.parent / "artifacts" / f"large{number}").write_bytes(os.urandom(9 << 20))
time.sleep(1)
(out / "params.json").write_text("{}")
(out / "metrics.json").write_text("{}")
"""


def test_two_invocations_at_once_keep_all_files_of_runs_that_passed(standing: RayNodes, project: Project) -> None:
    project.write("writes.py", WRITES_LARGE_FILES)
    names = [f"e{number}" for number in range(6)]
    project.matrix(*({"name": name, "script": "writes.py"} for name in names))
    both = [run_on(standing, project, "--bench-resume") for _ in range(2)]
    outcomes = [project.outcome(process) for process in both]
    assert [outcome.code for outcome in outcomes] == [0, 0], "".join(outcome.output for outcome in outcomes)
    assert [(name, verdict) for name, _, verdict in rows(project)] == [(name, "passed") for name in names]
    for name in names:
        assert not project.outcome_of(name)["warnings"]
        sizes = [path.stat().st_size for path in (project.session_dir / name / "artifacts").iterdir()]
        assert sizes == [9 << 20] * 3
    for outcome in outcomes:
        assert not outcome.has("results come back from")
    assert not list(project.session_dir.glob("fleet/token*"))


def test_a_log_that_grows_beside_a_matrix_in_a_large_folder_does_not_stop_the_fleet(
    standing: RayNodes, project: Project
) -> None:
    with (project.folder / "data").open("wb") as file:
        file.truncate(200 << 20)
    project.matrix(*(project.entry(f"e{number}") for number in range(3)))
    program = "import sys, time\nwhile True: print('a line of the job', flush=True); time.sleep(0.01)"
    with (project.folder / "slurm-7.out").open("wb") as log:
        job = subprocess.Popen([sys.executable, "-c", program], stdout=log)
    try:
        outcome = project.outcome(run_on(standing, project))
    finally:
        job.kill()
        job.wait()
    assert outcome.code == 0, outcome.output
    assert "is sent to" not in outcome.output
