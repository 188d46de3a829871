"""Whatever ends pytest, and whenever: within five seconds nothing of its runs is left, and the next run starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from proof.killing import (
    FULL,
    NOTHING_LEFT_WITHIN_S,
    RAY,
    Killing,
    at_random,
    command,
    nothing_left_within_s,
    sleep,
    wait_until_empty,
)

from curator_bench.measure.processes import busyness

MOMENTS = range(25 if FULL else 2)
FEW_MOMENTS = range(5 if FULL else 1)


@pytest.mark.parametrize("number", MOMENTS)
def test_sigkill_of_pytest_at_any_moment_leaves_nothing(killing: Killing, number: int) -> None:
    """While it imports, prepares, makes the dataset, starts Ray, runs the script, stops Ray."""
    killing.matrix(killing.entry("one", 1, ""), killing.entry("two", 60), ray=RAY)
    with killing.running() as process:
        sleep(at_random(number).uniform(0.3, 10))
        killing.look()
        process.kill()
        process.wait()
        killing.wait_until_nothing_is_left()
    killing.next_run_starts()


@pytest.mark.parametrize("number", range(20 if FULL else 1))
def test_ctrl_c_once_or_twice_at_any_moment_is_one_message_and_leaves_nothing(killing: Killing, number: int) -> None:
    """From the moment that the bench has taken Ctrl-C over, while Ray starts included."""
    killing.matrix(killing.entry("one", 1, ""), killing.entry("two", 60), ray=RAY)
    chance = at_random(number)
    with killing.running("--benchmark", *(("-n2",) if number % 4 > 1 else ())) as process:
        _wait_for_process(killing, "guard_program")
        sleep(chance.uniform(0, 10))
        killing.look()
        for _ in range(1 + number % 2):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
            sleep(chance.uniform(0, 1))
        assert process.wait(timeout=60 * busyness()) == pytest.ExitCode.INTERRUPTED, killing.output
        killing.wait_until_nothing_is_left()
    assert "Traceback" not in killing.output
    assert killing.output.count("KeyboardInterrupt !") + killing.output.count("Ctrl-C") == 1, killing.output
    for name in ("one", "two"):
        if (killing.project.session_dir / name / "results.json").exists():
            assert killing.project.outcome_of(name)["verdict"] in ("passed", "interrupted")


@pytest.mark.parametrize("number", MOMENTS)
def test_sigkill_of_the_ray_head_at_any_moment_leaves_nothing_and_the_next_entry_runs(
    killing: Killing, number: int
) -> None:
    """Any of its three main processes, from the moment that it is there. What a worker has in shared memory is left
    out: it ends with its Ray before anybody can look, as it does when its script ends.
    """
    chance = at_random(number)
    killing.matrix(killing.entry("one", 3, "", timeout_s=8 * busyness()), killing.entry("two", 0, ""), ray=RAY)
    with killing.running() as process:
        victim = chance.choice(["head_program.py", "gcs_server", "raylet/raylet"])
        pid = _wait_for_process(killing, victim)
        sleep(chance.uniform(0, 5))
        killing.look()
        print("killed:", victim)
        os.kill(pid, signal.SIGKILL)
        assert process.wait(timeout=120 * busyness()) in (0, 1), killing.output
        killing.wait_until_nothing_is_left()
    first, second = killing.project.outcome_of("one"), killing.project.outcome_of("two")
    assert first["verdict"] in ("error", "passed"), first
    if first["verdict"] == "error":
        assert "Ray cluster" in first["error"]
    assert second["verdict"] == "passed", second


def _wait_for_process(killing: Killing, name: str, within_s: float = 60) -> int:
    deadline = time.monotonic() + within_s * busyness()
    while True:
        for process in killing.project.processes():
            if name in command(process.pid).split(" --")[0]:
                return process.pid
        assert time.monotonic() < deadline, killing.output
        time.sleep(0.02)


@pytest.mark.parametrize("number", FEW_MOMENTS)
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT twice"])
def test_other_signals_to_pytest_leave_nothing_either(killing: Killing, number: int, name: str) -> None:
    killing.matrix(killing.entry("one", 60), ray=RAY if FULL else False)
    with killing.running() as process:
        killing.wait_for_work()
        killing.look()
        os.killpg(process.pid, signal.Signals[name.split()[0]])
        if name.endswith("twice"):
            time.sleep(at_random(number).uniform(0.01, 0.5))
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
        killing.wait_until_nothing_is_left()
        process.wait()
    killing.next_run_starts()


@pytest.mark.parametrize("number", FEW_MOMENTS)
@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_what_ignores_other_signals_in_the_background_of_a_script_ends_as_well(
    killing: Killing, number: int, name: str
) -> None:
    """With workers, which are asked by Ctrl-C to stop when their controller is gone: they do not hear it either."""
    killing.matrix(killing.entry("one", 60), killing.entry("two", 60), ray=False)
    with killing.running("-n2", background=True) as process:
        killing.wait_for_work("one")
        killing.wait_for_work("two")
        killing.look()
        for ignored in (signal.SIGINT, signal.SIGHUP):
            os.killpg(process.pid, ignored)
        time.sleep(at_random(number).uniform(0.01, 0.5))
        assert process.poll() is None
        process.send_signal(signal.Signals[name])
        process.wait()
        killing.wait_until_nothing_is_left()
    killing.next_run_starts()


@pytest.mark.parametrize("number", FEW_MOMENTS)
def test_sigkill_of_a_worker_of_xdist_leaves_nothing_of_it_and_the_others_go_on(killing: Killing, number: int) -> None:
    ray: dict[str, Any] | bool = RAY if FULL else False
    killing.matrix(killing.entry("one", 60), killing.entry("two", 4, ""), killing.entry("three", 0, ""), ray=ray)
    with killing.running("-n2") as process:
        killing.wait_for_work()
        worker = _worker_of(killing, "one")
        killing.look()
        os.kill(worker, signal.SIGKILL)
        began = time.monotonic()
        while any("works.py 60" in command(one.pid) for one in killing.project.processes()):
            assert time.monotonic() - began < nothing_left_within_s()
            time.sleep(0.02)
        print(f"nothing was left {time.monotonic() - began:.2f} s later")
        assert process.wait(timeout=120 * busyness()) == 1
        killing.wait_until_nothing_is_left()
    assert "one: interrupted" in killing.output
    assert [killing.project.outcome_of(name)["verdict"] for name in ("two", "three")] == ["passed", "passed"]
    killing.next_run_starts()


@pytest.mark.parametrize("number", FEW_MOMENTS)
def test_sigkill_of_the_controller_of_xdist_ends_its_workers(killing: Killing, number: int) -> None:
    killing.matrix(killing.entry("one", 60), killing.entry("two", 60), ray=RAY if FULL else False)
    with killing.running("-n2") as process:
        killing.wait_for_work("one")
        killing.wait_for_work("two")
        killing.look()
        process.kill()
        process.wait()
        killing.wait_until_nothing_is_left()
    killing.next_run_starts()


BUSY_PER_CORE = 4


@pytest.mark.parametrize("number", FEW_MOMENTS)
def test_on_a_busy_machine_the_workers_of_a_killed_controller_end_within_n_times_five_seconds(
    killing: Killing, number: int
) -> None:
    """The load that the system reports lags behind by a minute, so what is promised is counted out here."""
    killing.matrix(killing.entry("one", 60), killing.entry("two", 60), ray=RAY if FULL else False)
    within_s = max(NOTHING_LEFT_WITHIN_S * (BUSY_PER_CORE + 1), nothing_left_within_s())
    with killing.running("-n2") as process:
        killing.wait_for_work("one")
        killing.wait_for_work("two")
        with busy(BUSY_PER_CORE * (os.cpu_count() or 1)):
            sleep(at_random(number).uniform(1, 2))
            killing.look()
            process.kill()
            process.wait()
            wait_until_empty(killing.left, "nothing was left", within_s)


@contextmanager
def busy(count: int) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(count):
            process = stack.enter_context(
                subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
            )
            stack.callback(process.kill)
        yield


def _worker_of(killing: Killing, entry: str) -> int:
    status = json.loads((killing.project.session_dir / entry / "status.json").read_text())
    return int(status["pid"])
