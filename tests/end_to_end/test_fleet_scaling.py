"""A fleet that grows: with --bench-fleet-wait an entry waits for a node that is large enough, but not for ever."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from end_to_end.ray_nodes import QuickHead, RayNodes, can_hide_folders

import curator_bench
from curator_bench.measure.processes import busyness

if TYPE_CHECKING:
    import subprocess

    from end_to_end.conftest import Project

pytestmark = pytest.mark.slow

HELPED = """
import json, pathlib, sys
out = pathlib.Path(sys.argv[-1])
(out / "params.json").write_text("{}")
(out / "metrics.json").write_text(json.dumps({"helped": pathlib.Path(sys.argv[1]).read_text() == "helped"}))
"""


@pytest.fixture
def nodes() -> Iterator[RayNodes]:
    with QuickHead() as started:
        yield started


def helped(project: Project, name: str, **resources: float) -> dict[str, Any]:
    project.write("helped.py", HELPED)
    project.write("helper.txt", "helped")
    ray = {"num_cpus": 1, "num_gpus": 0, "object_store_size": 100_000_000, "resources": resources}
    return {"name": name, "script": "helped.py", "args": "helper.txt", "ray": ray}


def wait_until_submitted(project: Project, entry: str, process: subprocess.Popen[str]) -> None:
    """Until it waits in the queue of the cluster."""
    deadline = time.monotonic() + 60 * busyness()
    while not project.session_dir.joinpath(entry, "claim.json").exists():
        assert process.poll() is None, project.outcome(process).output
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_entry_waits_for_a_node_to_come_which_is_sent_what_it_lacks(nodes: RayNodes, project: Project) -> None:
    project.matrix(helped(project, "waits", disk=1), project.entry("runs"))
    options = ("--bench-fleet", nodes.address, "--bench-fleet-wait", "600")
    process = project.start(*options, background=False, **nodes.variables())
    wait_until_submitted(project, "waits", process)
    hidden = [project.folder, Path(curator_bench.__file__).parent] if can_hide_folders() else []
    nodes.join(*hidden, options=['--resources={"disk": 1}'])
    outcome = project.outcome(process)
    assert outcome.code == 0, outcome.output
    assert outcome.has("curator_bench is sent to nodes to come", "is sent to nodes to come")
    assert outcome.json("waits", "results.json")["metrics"]["helped"] is True


def test_when_the_time_is_over_it_is_an_error_that_names_the_largest_node(nodes: RayNodes, project: Project) -> None:
    project.matrix(helped(project, "waits", disk=1), project.entry("runs", "--sleep 1"))
    began = time.monotonic()
    outcome = project.run("--bench-fleet", nodes.address, "--bench-fleet-wait", "3", **nodes.variables())
    assert time.monotonic() - began > 3
    assert outcome.code == 1, outcome.output
    run = outcome.json("waits", "results.json")
    assert run["verdict"] == "error"
    assert "asks for CPU: 1, disk: 1; the largest node, " in run["error"]
    assert outcome.json("runs", "results.json")["verdict"] == "passed"
