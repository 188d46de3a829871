"""Whichever part of a fleet is killed, and whenever: within five seconds nothing is left of what ran under it, its own
cluster included, and what can go on does.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from end_to_end.ray_nodes import HeadByHand
from proof.killing import FULL, RAY, Killing, at_random, command, sleep, wait_until_empty

from curator_bench.measure.processes import RUN_VARIABLE, Mark, busyness, find_processes, identify

FLEET = ("--bench-fleet", "local", "--bench-fleet-cpus", "2")
MOMENTS = range(5 if FULL else 1)
NOTHING_LEFT_OF_A_CLIENT_WITHIN_S = 40.0


class Run:
    """What ran under a worker: the script, all it started, and its own cluster."""

    def __init__(self, killing: Killing, entry: str) -> None:
        self.killing = killing
        self.worker = psutil.Process(next(pid for pid in pids(killing) if command(pid).startswith(f"ray::{entry}")))
        script = next(pid for pid in pids(killing) if "works.py" in command(pid))
        self.mark = Mark(psutil.Process(script).environ()[RUN_VARIABLE])
        self.folders = set(killing.folders)

    def left(self) -> list[str]:
        shared = [str(path) for path in Path("/dev/shm").glob(f"{self.killing.project.mark.value}*")]
        return [*(f"process {one.pid} {command(one.pid)}" for one in find_processes(self.mark)), *shared]

    def wait_until_nothing_is_left(self) -> None:
        wait_until_empty(self.left, "nothing was left of the run")

    def victim(self, whom: str, pytest_itself: int) -> int:
        """The raylet and the head are the fleet's, not those of the run's own cluster."""
        raylet = self.worker.parent()
        assert raylet
        assert "raylet" in raylet.name()
        head = raylet.parent()
        assert head
        driver = next(pid for pid in pids(self.killing) if "driver_program" in command(pid))
        return {
            "worker": self.worker.pid,
            "raylet": raylet.pid,
            "head": head.pid,
            "driver": driver,
            "pytest": pytest_itself,
        }[whom]


def pids(killing: Killing) -> Iterator[int]:
    for process in killing.project.processes():
        if identify(process.pid):
            yield process.pid


@pytest.mark.parametrize("number", MOMENTS)
@pytest.mark.parametrize("whom", ["worker", "raylet", "head", "driver", "pytest"])
def test_nothing_of_a_run_outlives_what_it_ran_under(killing: Killing, whom: str, number: int) -> None:
    killing.matrix(killing.entry("one", 60, ray=RAY), killing.entry("two", 0, "", ray=False), ray=False)
    with killing.running(*FLEET) as process:
        killing.wait_for_work()
        sleep(at_random(whom, number).uniform(0, 2))
        killing.look()
        run = Run(killing, "one")
        assert run.left()
        os.kill(run.victim(whom, process.pid), signal.SIGKILL)
        run.wait_until_nothing_is_left()
        if whom != "pytest":
            assert process.wait(timeout=120 * busyness()) == 1, killing.output
        killing.wait_until_nothing_is_left()
    if whom != "pytest":
        outcome = killing.project.outcome_of("one")
        assert (outcome["verdict"], outcome["cause"]) == ("error", "node")
        assert killing.project.outcome_of("two")["verdict"] == "passed"


@pytest.mark.skipif(not FULL, reason="Ray waits half a minute for a client to come back: make proof")
def test_a_client_that_is_killed_leaves_nothing_on_the_cluster(killing: Killing) -> None:
    pytest.importorskip("grpc", reason="needs the extra [fleet], for ray://")
    killing.matrix(killing.entry("one", 600, ray=RAY), ray=False)
    with HeadByHand(**killing.project.mark.environment()) as head:
        options = ("--bench-fleet", head.client_address)
        with killing.running(*options, background=False, **head.variables()) as process:
            killing.wait_for_work(within_s=180)
            assert ours_on(head)
            process.kill()
            began = time.monotonic()
            while left := ours_on(head):
                assert time.monotonic() - began < NOTHING_LEFT_OF_A_CLIENT_WITHIN_S, left
                time.sleep(0.1)
            print(f"nothing was left on the cluster {time.monotonic() - began:.2f} s later")


def ours_on(head: HeadByHand) -> list[str]:
    """What a client has had done there: its tasks and actors, the script and what that started, its own cluster."""
    told = (command(one.pid) for one in find_processes(head.mark))
    ours = ("ray::one", "ray::Board", "works.py", "sleep 600", "head_program.py")
    return [one for one in told if any(word in one for word in ours)]
