"""A fleet that is reached from a machine that is no node of it: --bench-fleet ray://HOST:PORT."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from end_to_end.ray_nodes import HeadByHand, can_hide_folders

import curator_bench
from curator_bench.measure.processes import busyness, find_processes

if TYPE_CHECKING:
    from end_to_end.conftest import Project

pytestmark = pytest.mark.slow

needs_the_extra = pytest.mark.usefixtures("_extra")
WORKS = """
import json, pathlib, sys
import ray
ray.init(log_to_driver=False)
ray.get(ray.remote(lambda: print("at work", flush=True)).remote())
out = pathlib.Path(sys.argv[-1])
(out / "params.json").write_text("{}")
helped = pathlib.Path(sys.argv[1]).read_text() == "helped"
cpus = ray.cluster_resources()["CPU"]
is_sent = "working_dir_files" in str(pathlib.Path.cwd())
(out / "metrics.json").write_text(json.dumps({"helped": helped, "cpus": cpus, "is_sent": is_sent}))
(out.parent / "artifacts" / "kept.txt").write_bytes(b"kept" * (5 << 20))
"""
OURS_THERE = ("ray::Board", "ray::works", "ray::crashes")
OWN_CLUSTER = {"num_cpus": 1, "num_gpus": 0, "object_store_size": 100_000_000}


@pytest.fixture(scope="module")
def _extra() -> None:
    pytest.importorskip("grpc", reason="needs the extra [fleet], for ray://")


@pytest.fixture(scope="module")
def project_of_all(new_project: Callable[[], Project]) -> Project:
    return new_project()


@pytest.fixture(scope="module")
def head(project_of_all: Project, _extra: None) -> Iterator[HeadByHand]:
    """Has neither our code nor the folder of the matrix, where that can be arranged."""
    hidden = [project_of_all.folder, Path(curator_bench.__file__).parent] if can_hide_folders() else []
    with HeadByHand(*hidden, options=["--num-cpus=2"]) as started:
        yield started


@needs_the_extra
def test_entries_run_through_a_client_and_leave_nothing_on_the_cluster(
    head: HeadByHand, project_of_all: Project
) -> None:
    project = project_of_all
    project.write("works.py", WORKS)
    project.write("helper.txt", "helped")
    project.matrix(
        {"name": "works", "script": "works.py", "args": "helper.txt", "ray": OWN_CLUSTER},
        project.entry("crashes", "--exit 3"),
        project.entry("huge", ray={"num_cpus": 500}),
    )
    outcome = project.run("--bench-fleet", head.client_address, **head.variables())
    assert outcome.code == 1, outcome.output
    assert outcome.json("summary.json")["counts"] == {"passed": 1, "crashed": 1, "error": 1}
    run = outcome.json("works", "results.json")
    assert run["metrics"]["helped"] is True
    assert run["metrics"]["cpus"] == 1
    assert Path(run["directory"], "artifacts", "kept.txt").read_bytes() == b"kept" * (5 << 20)
    assert Path(run["log_path"]).exists()
    assert outcome.has("curator_bench is sent to all nodes", "is sent to all nodes")
    if can_hide_folders():
        assert run["metrics"]["is_sent"] is True
    assert not workers_left(head)


def workers_left(head: HeadByHand) -> list[str]:
    """What the client had there ends with it, not half a minute later."""
    deadline = time.monotonic() + 15 * busyness()
    while (left := [one for one in commands(head) if one.startswith(OURS_THERE)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def commands(head: HeadByHand) -> list[str]:
    found = []
    for process in find_processes(head.mark):
        try:
            found.append(Path(f"/proc/{process.pid}/cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


@needs_the_extra
def test_a_refused_token_and_a_port_of_something_else_are_one_message_each(head: HeadByHand, project: Project) -> None:
    project.matrix(project.entry("one"))
    for address, token, message in [
        (head.client_address, "f" * 40, "it has another token, or this process has none"),
        (f"ray://{head.address}", "", "no Ray Client server"),
    ]:
        began = time.monotonic()
        outcome = project.run("--bench-fleet", address, **head.variables(token))
        assert outcome.code == 4, outcome.output
        errors = [line for line in outcome.lines if line.startswith("ERROR")]
        assert len(errors) == 1
        assert f"--bench-fleet {address}: cannot be used: {message}" in errors[0]
        assert time.monotonic() - began < 60 * busyness()


def test_without_the_extra_it_is_said_what_to_install(project: Project) -> None:
    project.write("conftest.py", "import sys; sys.modules['grpc'] = None")
    project.matrix(project.entry("one"))
    outcome = project.run("--bench-fleet", "ray://127.0.0.1:1")
    assert outcome.code == 4, outcome.output
    assert "pip install 'curator-bench[fleet]'" in outcome.output
    assert outcome.output.count("ERROR") == 1
