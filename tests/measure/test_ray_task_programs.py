"""When the program that asks a script's cluster is started: not before a driver has come, and once for a cluster."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from curator_bench.measure import ray_tasks
from curator_bench.measure.ray_tasks import RayTaskPrograms, RayTaskSampler
from curator_bench.measure.schedule import Schedule

STAND_IN = """
import json, os, sys
with os.fdopen(int(sys.argv[1]), "w", buffering=1) as answers, open(os.environ["HEARD"], "a", buffering=1) as heard:
    print(json.dumps([os.environ["RAY_ADDRESS"], *sys.argv[2:]]), file=heard)
    print('{"ready": true}', file=answers)
    for line in sys.stdin:
        question = json.loads(line)
        print(json.dumps([os.environ["RAY_ADDRESS"], *sorted(question)]), file=heard)
        print(json.dumps({"tasks": None, "disk": None, "store_peak": 7}), file=answers)
"""


class Scripts:
    """Scripts on clusters of ours, whose programs note what they are asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = RayTaskPrograms(Schedule())

    def run(self, address: str, drivers: int = 0, **env: str) -> RayTaskSampler:
        """Run a script with so many drivers."""
        session_dir = self.folder / address
        logs = session_dir / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        env = {**os.environ, "RAY_ADDRESS": address, "HEARD": str(self.folder / "heard"), **env}
        sampler = RayTaskSampler(sys.executable, env, session_dir=session_dir, programs=self.programs, is_new=True)
        sampler.start()
        for _ in range(drivers):
            (logs / f"python-core-driver-{time.monotonic_ns()}.log").touch()
        sampler.stop()
        assert sampler.warnings() == ()
        return sampler

    def heard(self) -> list[list[str]]:
        path = self.folder / "heard"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scripts:
    program = tmp_path / "program.py"
    program.write_text(STAND_IN)
    monkeypatch.setattr(ray_tasks, "_PROGRAM", program)
    return Scripts(tmp_path)


QUESTION = ["began_ns", "ended_ns", "is_over"]


def test_a_script_without_a_driver_is_not_asked_about(scripts: Scripts) -> None:
    (scripts.folder / "one" / "logs").mkdir(parents=True)
    (scripts.folder / "one" / "logs" / "python-core-driver-earlier.log").touch()
    assert scripts.run("one").metrics() == {}
    assert scripts.heard() == []


def test_a_driver_is_noticed_also_at_the_last_moment(scripts: Scripts) -> None:
    assert scripts.run("one", drivers=1).metrics() == {"peak_object_store_bytes": 7}
    scripts.programs.end()
    assert scripts.heard() == [["one", "new"], ["one", *QUESTION]]


def test_the_next_script_of_a_cluster_has_the_same_program_and_counts_from_its_own_start(scripts: Scripts) -> None:
    for _ in range(2):
        scripts.run("one", drivers=1)
    scripts.programs.end()
    assert scripts.heard() == [["one", "new"], ["one", *QUESTION], ["one", "begin"], ["one", *QUESTION]]


def test_a_cluster_that_was_asked_before_is_not_new_when_it_comes_again(scripts: Scripts) -> None:
    for address in ("one", "two", "one"):
        scripts.run(address, drivers=1)
    scripts.programs.end()
    assert [told for told in scripts.heard() if told[1:] != QUESTION] == [["one", "new"], ["two", "new"], ["one"]]


def test_where_drivers_leave_no_log_the_cluster_is_asked(scripts: Scripts) -> None:
    scripts.run("one", RAY_LOG_TO_STDERR="1")
    scripts.programs.end()
    assert scripts.heard() == [["one", "new"], ["one", *QUESTION]]
