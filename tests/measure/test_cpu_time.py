"""The processor time of a tree whose processes come and go."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
import pytest

from curator_bench.measure.cpu_time import CpuLedger
from curator_bench.measure.memory import MemorySampler
from curator_bench.measure.usage import ProcessUsage

if TYPE_CHECKING:
    from measure.conftest import Child

    StartChild = Callable[..., Child]

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

BURN = """
import os, subprocess, sys, time
def burn(seconds):
    began = time.process_time()
    while time.process_time() - began < seconds:
        sum(range(1000))
def in_child(seconds):
    pid = os.fork()
    if pid == 0:
        burn(seconds)
        os._exit(0)
    return pid
"""
SLACK_S = 0.35
"""Starting an interpreter on a busy machine, and a process that was seen for the last time a moment before it ended."""


def cpu_time_of(child: Child) -> float:
    """What is measured from now until the child ends, which it does when it is told to go on."""
    sampler = MemorySampler(child.pids)
    sampler.start()
    child.tell()
    child.process.wait()
    sampler.stop()
    assert sampler.warnings() == ()
    return sampler.metrics()["cpu_time_s"]


@on_linux
@pytest.mark.parametrize(
    "work",
    [
        pytest.param("burn(0.8)", id="its own"),
        pytest.param("os.waitpid(in_child(0.8), 0)", id="a child that was waited for"),
        pytest.param("[os.waitpid(in_child(0.05), 0) for _ in range(16)]", id="children too short to be seen"),
        pytest.param("pids = [in_child(0.4) for _ in range(2)]; [os.waitpid(p, 0) for p in pids]", id="two at once"),
        pytest.param("burn(0.3); os.waitpid(in_child(0.5), 0)", id="its own and a child's"),
    ],
)
def test_the_time_of_a_tree_is_counted_once_to_its_end(start_child: StartChild, work: str) -> None:
    child = start_child(f"{BURN}\nsys.stdin.readline()\n{work}")
    assert 0.75 <= cpu_time_of(child) <= 0.8 + SLACK_S


@on_linux
def test_a_daemon_that_nobody_waits_for_is_counted_as_far_as_it_was_seen(start_child: StartChild) -> None:
    daemonise = """
sys.stdin.readline()
if os.fork() == 0:
    os.setsid()
    print(in_child(2.0), flush=True)
    os._exit(0)
os.wait()
sys.stdin.readline()
"""
    child = start_child(BURN + daemonise)
    sampler = MemorySampler(child.pids)
    sampler.start()
    child.tell()
    daemon = psutil.Process(int(child.line()))
    child.seen.add(daemon.pid)
    sampler.look_again()
    with suppress(psutil.NoSuchProcess):
        daemon.wait(60)
    child.tell()
    child.process.wait()
    sampler.stop()
    assert 1.0 <= sampler.metrics()["cpu_time_s"] <= 2.0 + SLACK_S


@on_linux
def test_workers_that_nobody_waits_for_are_seen_without_a_search(start_child: StartChild) -> None:
    workers = """
sys.stdin.readline()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
worker = in_child(1.5)
try:
    os.waitpid(worker, 0)
except ChildProcessError:
    pass
"""
    child = start_child("import signal\n" + BURN + workers)
    sampler = MemorySampler(lambda: [child.pid])
    sampler.start()
    child.tell()
    child.process.wait()
    sampler.stop()
    assert sampler.metrics()["cpu_time_s"] >= 0.7


@on_linux
def test_what_was_used_before_the_start_is_not_counted(start_child: StartChild) -> None:
    child = start_child(f"{BURN}\nburn(1.0)\nprint('ready', flush=True)\nsys.stdin.readline()\nburn(0.5)")
    child.line()
    assert 0.45 <= cpu_time_of(child) <= 0.5 + SLACK_S


@on_linux
def test_other_children_of_ours_are_not_counted(start_child: StartChild) -> None:
    child = start_child("import sys; sys.stdin.readline()")
    sampler = MemorySampler(child.pids)
    sampler.start()
    subprocess.run([sys.executable, "-c", f"{BURN}\nburn(1.0)"], check=True)
    time.sleep(1.2)
    sampler.stop()
    assert sampler.metrics().get("cpu_time_s", 0) < 0.5


def usage(
    pid: int, cpu_s: float, waited_cpu_s: float = 0.0, *, parent: int = 1, started: float = 100.0
) -> ProcessUsage:
    return ProcessUsage(pid, started, parent, 0, cpu_s, waited_cpu_s)


def total_of(*looks: list[ProcessUsage], outside: tuple[float, ...] = ()) -> float:
    ledger = CpuLedger(began=50.0)
    for number, look in enumerate(looks):
        ledger.update(look, {9: outside[number]} if outside else {})
    return ledger.total_s


def test_a_child_passes_to_the_waited_time_of_its_parent() -> None:
    looks = [usage(2, 1.0), usage(3, 4.0, parent=2)], [usage(2, 1.0, 4.5)]
    assert total_of(*looks) == pytest.approx(5.5)


def test_a_child_that_was_not_waited_for_is_kept_as_last_seen() -> None:
    assert total_of([usage(2, 1.0), usage(3, 4.0, parent=2)], [usage(2, 1.5)]) == pytest.approx(5.5)


def test_of_two_children_the_one_that_was_not_waited_for_is_kept() -> None:
    first = [usage(2, 1.0), usage(3, 4.0, parent=2), usage(4, 2.0, parent=2)]
    assert total_of(first, [usage(2, 1.0, 4.0)]) == pytest.approx(7.0)


def test_a_branch_that_ended_as_a_whole_passes_to_the_nearest_that_lives() -> None:
    first = [usage(2, 1.0), usage(3, 2.0, parent=2), usage(4, 3.0, parent=3)]
    assert total_of(first, [usage(2, 1.0, 5.2)]) == pytest.approx(6.2)


def test_the_last_moments_of_what_we_waited_for_ourselves_are_counted() -> None:
    assert total_of([usage(2, 1.0, parent=9)], [], outside=(10.0, 11.7)) == pytest.approx(1.7)


def test_what_we_waited_for_that_was_never_in_the_tree_is_not_counted() -> None:
    assert total_of([usage(2, 1.0, parent=9)], [usage(2, 1.0, parent=9)], outside=(10.0, 99.0)) == pytest.approx(1.0)


def test_a_number_given_to_another_process_is_another_process() -> None:
    assert total_of([usage(2, 5.0)], [usage(2, 0.1, started=200.0)]) == pytest.approx(5.1)


def test_an_older_process_counts_from_when_it_was_first_seen_also_after_its_end() -> None:
    older = usage(3, 7.0, parent=2, started=10.0)
    later = usage(3, 8.0, parent=2, started=10.0)
    assert total_of([usage(2, 0.0), older], [usage(2, 0.0), later], [usage(2, 0.0, 8.5)]) == pytest.approx(1.5)


@on_linux
def test_so_little_that_the_clock_of_the_kernel_decides_is_not_known(start_child: StartChild) -> None:
    child = start_child("import sys; print('ready', flush=True); sys.stdin.readline()")
    child.line()
    time.sleep(0.2)  # past the start of the interpreter
    sampler = MemorySampler(child.pids)
    sampler.start()
    time.sleep(0.5)
    sampler.stop()
    assert "cpu_time_s" not in sampler.metrics()
