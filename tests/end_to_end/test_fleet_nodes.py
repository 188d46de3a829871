"""A fleet that the user has started, of several nodes: it is used and left as it was, also when a node dies."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import curator_bench
from curator_bench.cluster.environment import authentication, without_ray
from curator_bench.cluster.local import LocalCluster
from curator_bench.cluster.model import ClusterRequest
from curator_bench.measure.processes import Mark, end_processes, find_processes
from curator_bench.values import RaySettings

if TYPE_CHECKING:
    from end_to_end.conftest import Outcome, Project

RAY = Path(sys.executable).with_name("ray")
# Ends its Ray worker, as a node that is out of order would; elsewhere it does well.
BAD_ON_ONE_NODE = """
import os, pathlib, signal, sys, time
if "BAD_NODE" in os.environ:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)
time.sleep(0.5)
out = pathlib.Path(sys.argv[-1])
(out / "params.json").write_text("{}")
(out / "metrics.json").write_text("{}")
"""


ASKS = """
import json, pathlib, sys
print("at work", flush=True)
out = pathlib.Path(sys.argv[-1])
(out / "params.json").write_text("{}")
helped = pathlib.Path(sys.argv[1]).read_text() == "helped"
(out / "metrics.json").write_text(json.dumps({"helped": helped, "folder": pathlib.Path.cwd().name}))
(out.parent / "artifacts" / "kept.txt").write_text("kept")
"""


class ThreeNodes:
    """One `ray start --head` and two that join it, all on this machine, with one CPU each."""

    def __init__(self, folder: Path) -> None:
        self.mark = Mark(uuid.uuid4().hex, "CURATOR_BENCH_TEST_NODE")
        self._provider = LocalCluster()
        env = {**os.environ, **self.mark.environment()}
        settings = RaySettings(num_cpus=1, num_gpus=0, object_store_size=100_000_000)
        self._head = self._provider.start(ClusterRequest(settings, uuid.uuid4().hex, env, folder / "head.log"))
        self.address, self.token = self._head.address, self._head.token
        self._folder, self._others = folder, list[tuple[subprocess.Popen[bytes], Mark]]()

    def join(self, *without: Path, options: Sequence[str] = (), **variables: str) -> None:
        """`without`: folders that are empty for this node, as they are on another machine."""
        mark = Mark(uuid.uuid4().hex, "CURATOR_BENCH_TEST_JOINED")
        own = {**authentication(self.token), **self.mark.environment(), **mark.environment(), **variables}
        sizes = ["--num-cpus=1", "--num-gpus=0", "--object-store-memory=100000000", "--disable-usage-stats"]
        log = (self._folder / f"node{len(self._others)}.log").open("wb")
        process = subprocess.Popen(
            [*_hiding(without), RAY, "start", f"--address={self.address}", "--block", *sizes, *options],
            env={**without_ray(os.environ), **own},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._others.append((process, mark))

    def kill_the_last(self) -> None:
        """As when its plug is pulled."""
        process, mark = self._others[-1]
        end_processes(mark, [process.pid], grace_s=0)

    def variables(self, token: str = "") -> dict[str, str]:
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token or self.token}

    def close(self) -> None:
        for process, _ in self._others:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
        end_processes(self.mark, grace_s=0)
        for process, _ in self._others:
            process.wait()
        self._provider.close()


def _hiding(folders: tuple[Path, ...]) -> list[str]:
    mounts = "; ".join(f"mount -t tmpfs none '{folder}'" for folder in folders)
    return ["unshare", "--mount", "sh", "-c", f'set -e; {mounts}; exec "$@"', "sh"] if folders else []


@pytest.fixture
def nodes() -> Iterator[ThreeNodes]:
    folder = Path(tempfile.mkdtemp(prefix="cbt-"))
    started = ThreeNodes(folder)
    try:
        yield started
    finally:
        started.close()
        shutil.rmtree(folder, ignore_errors=True)


def run_on(nodes: ThreeNodes, project: Project, *options: str) -> subprocess.Popen[str]:
    recorded = ("--benchmark", "--benchmark-db", "runs.db")
    words = ("--bench-fleet", nodes.address, *recorded, *options)
    return project.start(*words, output=subprocess.PIPE, **nodes.variables())  # type: ignore[arg-type]


def rows(project: Project) -> list[tuple[str, int, str]]:
    with sqlite3.connect(project.folder / "runs.db") as database:
        return database.execute("SELECT name, attempt, verdict FROM test_run ORDER BY name, attempt").fetchall()


def wait_for_log_lines(project: Project, count: int) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        logs = project.session_dir.glob("*/logs/stdouterr.log")
        if sum("at work" in log.read_text() for log in logs) >= count:
            return
        time.sleep(0.05)
    pytest.fail("the nodes are not busy")


def test_a_node_that_dies_while_busy_costs_no_entry_its_verdict(nodes: ThreeNodes, project: Project) -> None:
    nodes.join()
    nodes.join()
    names = [f"e{number}" for number in range(8)]
    project.matrix(*(project.entry(name, "--sleep 4", retries=2) for name in names))
    process = run_on(nodes, project, "--bench-fleet-wait", "60")
    wait_for_log_lines(project, 3)
    nodes.kill_the_last()
    outcome = project.outcome(process)
    assert outcome.code == 0, outcome.output
    found = rows(project)
    assert [name for name, _, verdict in found if verdict == "passed"] == names
    assert {verdict for _, _, verdict in found} == {"passed", "error"}
    summary = outcome.json("summary.json")
    assert summary["counts"] == {"passed": len(names)}
    left = find_processes(project.mark) - find_processes(nodes.mark)
    assert not left
    assert nodes_answer(nodes)


def nodes_answer(nodes: ThreeNodes) -> bool:
    """The user's cluster is still theirs."""
    program = "import ray; ray.init(); assert ray.cluster_resources()['CPU'] >= 1"
    env = {**without_ray(os.environ), **nodes.variables(), "RAY_ADDRESS": nodes.address}
    return subprocess.run([sys.executable, "-c", program], env=env, check=False, timeout=90).returncode == 0


def test_a_node_on_which_two_entries_meet_errors_is_left_out(nodes: ThreeNodes, project: Project) -> None:
    nodes.join(BAD_NODE="1")
    project.write("bad.py", BAD_ON_ONE_NODE)
    project.matrix(*({"name": f"e{number}", "script": "bad.py", "retries": 1} for number in range(8)))
    wait_until_joined(nodes, 2)
    outcome = project.outcome(run_on(nodes, project))
    assert outcome.code == 0, outcome.output
    errors = [name for name, _, verdict in rows(project) if verdict == "error"]
    assert 2 <= len(errors) <= 4  # those that Ray had given to it by then
    assert outcome.has("left out: node ")


def wait_until_joined(nodes: ThreeNodes, count: int) -> None:
    program = (
        f"import ray, time; ray.init()\nwhile sum(node['Alive'] for node in ray.nodes()) < {count}: time.sleep(0.1)"
    )
    env = {**without_ray(os.environ), **nodes.variables(), "RAY_ADDRESS": nodes.address}
    subprocess.run([sys.executable, "-c", program], env=env, check=True, timeout=90)


def test_a_wrong_token_is_one_message(nodes: ThreeNodes, project: Project) -> None:
    project.matrix(project.entry("one"))
    outcome: Outcome = project.run("--bench-fleet", nodes.address, **nodes.variables("f" * 40))
    assert outcome.code == 4, outcome.output
    errors = [line for line in outcome.lines if line.startswith("ERROR")]
    assert len(errors) == 1
    assert "cannot be used" in errors[0]


def can_hide_folders() -> bool:
    command = [*_hiding((Path("/mnt"),)), "true"]
    with suppress(OSError):
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    return False


@pytest.mark.skipif(not can_hide_folders(), reason="needs root, to hide folders from a node")
def test_what_a_machine_lacks_is_sent_to_it_and_results_come_back(nodes: ThreeNodes, project: Project) -> None:
    nodes.join(project.folder, Path(curator_bench.__file__).parent, options=['--resources={"away": 1}'])
    wait_until_joined(nodes, 2)
    project.write("asks.py", ASKS)
    ray = {"num_cpus": 1, "num_gpus": 0, "object_store_size": 100_000_000, "resources": {"away": 1}}
    project.matrix(
        {"name": "here", "script": "asks.py", "args": "helper.txt"},
        {"name": "there", "script": "asks.py", "args": "helper.txt", "ray": ray},
    )
    project.write("helper.txt", "helped")
    outcome = project.outcome(run_on(nodes, project))
    assert outcome.code == 0, outcome.output
    assert outcome.has("curator_bench is sent to ", "is sent to ", "results come back from ")
    here, there = (outcome.json(name, "results.json") for name in ("here", "there"))
    assert here["metrics"]["helped"] is there["metrics"]["helped"] is True
    assert here["metrics"]["folder"] == project.folder.name != there["metrics"]["folder"]
    assert there["log_path"].startswith(str(project.session_dir))
    assert Path(there["log_path"]).read_text() == "at work\n"
    assert Path(there["directory"], "artifacts", "kept.txt").read_text() == "kept"
