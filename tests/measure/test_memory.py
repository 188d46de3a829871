"""What a tree of processes uses: real processes, real shared memory, a real Ray."""

from __future__ import annotations

import csv
import json
import logging
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from curator_bench.measure.memory import MemorySampler
from curator_bench.measure.samples import TimeAverage
from curator_bench.measure.usage import ProcessUsage, ProcReader, PsutilReader

if TYPE_CHECKING:
    from measure.conftest import Child

    StartChild = Callable[..., Child]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SOURCE = Path(__file__).parents[2] / "src"
MIB = 1 << 20
INTERPRETER_MIB = 25
"""More than a bare interpreter has of its own."""

HOLD = """
import sys
held = bytearray(int(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
"""

# Four processes that map one segment and have touched all of it. Only the first keeps a descriptor, if any does, as
# Ray's raylet does for the object store.
SHARE = """
import ctypes, mmap, os, sys, tempfile
kind, size, touched = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = libc.shmat.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]

def mapped(fd, flags=mmap.MAP_SHARED):
    return libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, 0)

fd, name = -1, ""
if kind == "anonymous":
    address = mapped(-1, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
elif kind == "system-v":
    number = libc.shmget(0, size, 0o1600)
    address = libc.shmat(number, None, 0)
    libc.shmctl(number, 0, None)
else:
    fd, name = (os.memfd_create("shared"), "") if kind == "memfd" else tempfile.mkstemp(dir="/dev/shm")
    os.ftruncate(fd, size)
    address = mapped(fd)
    if kind in ("kept-open", "closed"):
        os.unlink(name)
    if kind in ("named", "closed"):
        os.close(fd)

ctypes.memset(address, 1, touched)
said, says = os.pipe()
for _ in range(3):
    if os.fork() == 0:
        if kind in ("kept-open", "memfd"):
            os.close(fd)
        ctypes.memset(address, 2, touched)
        os.write(says, b".")
        os.read(0, 1)
        os._exit(0)
for _ in range(3):
    os.read(said, 1)
print("ready", name, flush=True)
os.read(0, 1)
"""


def sampled(find_pids: Callable[[], Collection[int]]) -> MemorySampler:
    sampler = MemorySampler(find_pids)
    sampler.start()
    return sampler


def peak_mib(sampler: MemorySampler) -> float:
    sampler.stop()
    assert sampler.warnings() == ()
    return sampler.metrics()["peak_memory_bytes"] / MIB


def test_memory_is_that_of_all_processes_together(start_child: StartChild) -> None:
    children = [start_child(HOLD, 100 * MIB) for _ in range(2)]
    assert [child.line() for child in children] == ["ready", "ready"]
    sampler = sampled(lambda: [child.pid for child in children])
    assert 200 <= peak_mib(sampler) <= 200 + 2 * INTERPRETER_MIB


@pytest.mark.parametrize("kind", ["named", "kept-open", "closed", "memfd", "anonymous", "system-v"])
def test_a_shared_segment_counts_once_whoever_maps_it(start_child: StartChild, kind: str) -> None:
    child = start_child(SHARE, kind, 200 * MIB, 200 * MIB)
    ready, *names = child.line().split()
    try:
        assert ready == "ready"
        assert len(child.pids()) == 4
        peak = peak_mib(sampled(child.pids))
    finally:
        for name in names:
            Path(name).unlink(missing_ok=True)
    assert 200 <= peak <= 200 + 4 * INTERPRETER_MIB


@pytest.mark.parametrize("kind", ["kept-open", "anonymous"])
def test_of_a_shared_segment_only_what_it_holds_counts(start_child: StartChild, kind: str) -> None:
    child = start_child(SHARE, kind, 4096 * MIB, 50 * MIB)
    assert child.line().startswith("ready")
    sampler = sampled(child.pids)
    assert 50 <= peak_mib(sampler) <= 50 + 4 * INTERPRETER_MIB


def test_a_shared_segment_that_is_gone_does_not_count(start_child: StartChild) -> None:
    child = start_child(SHARE, "kept-open", 200 * MIB, 200 * MIB)
    assert child.line().startswith("ready")
    reader = ProcReader()
    reader.look_up_shared(child.pids())
    assert reader.shared_bytes() == 200 * MIB
    child.end()
    assert reader.shared_bytes() == 0


@pytest.mark.slow
def test_the_object_store_of_a_real_ray_counts_once(start_child: StartChild) -> None:
    code = """
import numpy, ray, sys
ray.init(address="local", num_cpus=2, object_store_memory=1 << 30, include_dashboard=False, log_to_driver=False)
print("idle", flush=True)
sys.stdin.readline()
stored = ray.put(numpy.ones(300 << 17))

@ray.remote
def read(array):
    import time
    time.sleep(1)
    return float(array.sum())

assert ray.get([read.remote(stored) for _ in range(2)]) == [300 << 17] * 2
print("stored", flush=True)
sys.stdin.readline()
ray.shutdown()
"""
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    env |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    child = start_child(code, env=env)
    assert child.line() == "idle"
    idle = sampled(child.pids)
    idle_mib = peak_mib(idle)
    child.tell()
    assert child.line() == "stored"
    full = sampled(child.pids)
    # The array is mapped by the driver and by two workers; the workers' own memory comes on top.
    assert 300 <= peak_mib(full) - idle_mib <= 300 + 250
    child.tell()
    child.process.wait()


def test_memory_given_back_lowers_the_average_but_not_the_peak(start_child: StartChild) -> None:
    child = start_child(
        "import sys; held = bytearray(200 << 20); print(1, flush=True); sys.stdin.readline();"
        "del held; print(2, flush=True); sys.stdin.readline()"
    )
    child.line()
    sampler = sampled(child.pids)
    child.tell()
    child.line()
    time.sleep(2)
    sampler.stop()
    metrics = sampler.metrics()
    assert metrics["peak_memory_bytes"] >= 200 * MIB
    assert metrics["average_memory_bytes"] < 150 * MIB


def test_a_script_of_less_than_a_second_is_seen(start_child: StartChild) -> None:
    children: list[Child] = []
    sampler = sampled(lambda: [pid for child in children for pid in child.pids()])
    children.append(start_child("import time; held = bytearray(150 << 20); time.sleep(0.6)"))
    sampler.look_again()
    children[0].process.wait()
    assert peak_mib(sampler) >= 150


def test_a_process_that_joins_later_is_found(start_child: StartChild) -> None:
    parent = start_child(
        "import subprocess, sys; print(1, flush=True); sys.stdin.readline();"
        "subprocess.run([sys.executable, '-c', 'held = bytearray(150 << 20); print(2, flush=True); input()'])"
    )
    parent.line()
    sampler = sampled(parent.pids)
    parent.tell()
    parent.line()
    assert peak_mib(sampler) >= 150


def test_the_readers_of_proc_and_of_psutil_agree(start_child: StartChild) -> None:
    child = start_child(HOLD, 100 * MIB)
    child.line()
    by_psutil = MemorySampler(child.pids, reader=PsutilReader())
    by_psutil.start()
    assert peak_mib(by_psutil) == pytest.approx(peak_mib(sampled(child.pids)), rel=0.2)


class Recycled:
    """A reader to whom the number 7 belongs to one process for some looks and to a stranger from then on."""

    def __init__(self, looks_of_first: int) -> None:
        self.looks = 0
        self._looks_of_first = looks_of_first

    def now(self) -> float:
        return 0.0

    def usage(self, pid: int) -> ProcessUsage | None:
        if pid != 7:
            return None
        self.looks += 1
        started = 1 if self.looks <= self._looks_of_first else 2
        return ProcessUsage(7, 1.0 * started, 1, 1000**started, 0.0, 0.0)

    def look_up_shared(self, pids: Collection[int]) -> None:
        pass

    def shared_bytes(self) -> int:
        return 0


def test_a_stranger_who_was_given_the_number_of_a_process_that_ended_is_not_measured() -> None:
    reader = Recycled(looks_of_first=2)
    found = iter([[7]])
    sampler = MemorySampler(lambda: next(found, []), reader=reader)
    sampler.start()
    sampler.look_again()
    deadline = time.monotonic() + 60
    while reader.looks < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    sampler.stop()
    assert reader.looks == 3
    assert sampler.metrics()["peak_memory_bytes"] == 1000


def test_what_was_seen_once_is_too_short_to_say_anything_of_it() -> None:
    found = iter([[7]])
    sampler = MemorySampler(lambda: next(found, []), reader=Recycled(looks_of_first=1))
    sampler.start()
    sampler.stop()
    assert sampler.metrics() == {}


def test_what_cannot_be_looked_up_is_a_warning_and_what_is_known_is_still_measured(
    start_child: StartChild, caplog: pytest.LogCaptureFixture
) -> None:
    child = start_child(HOLD, 100 * MIB)
    child.line()
    looks: list[int] = []

    def find_pids() -> Collection[int]:
        looks.append(1)
        if len(looks) > 1:
            raise PermissionError("no table of processes today")
        return [child.pid]

    with caplog.at_level(logging.WARNING):
        sampler = sampled(find_pids)
        for _ in range(3):
            sampler.look_again()
            time.sleep(0.2)
        sampler.stop()
    assert len(looks) > 2
    assert [text for text in sampler.warnings() if "no table of processes today" in text] == list(sampler.warnings())
    assert len(sampler.warnings()) == len(caplog.records) == 1
    assert sampler.metrics()["peak_memory_bytes"] >= 100 * MIB


def test_every_sample_is_a_row(start_child: StartChild, tmp_path: Path) -> None:
    child = start_child(HOLD, 50 * MIB)
    assert child.line() == "ready"
    sampler = MemorySampler(lambda: [child.pid], csv_path=tmp_path / "memory.csv")
    sampler.start()
    time.sleep(1.5)
    sampler.stop()
    with (tmp_path / "memory.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 3
    assert max(int(row["memory_bytes"]) for row in rows) == sampler.metrics()["peak_memory_bytes"]
    moments = [datetime.fromisoformat(row["time"]) for row in rows]
    assert moments == sorted(moments)


WITHOUT_ROOM = """
import json, os, resource, sys
from pathlib import Path
from curator_bench.measure.memory import MemorySampler
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
sampler = MemorySampler(lambda: [os.getpid()], csv_path=Path(sys.argv[1]))
sampler.start()
sampler.look_again()
sampler.stop()
print(json.dumps([sampler.warnings(), sampler.metrics()]))
"""


def test_a_disk_that_is_full_costs_the_file_and_not_the_figures(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WITHOUT_ROOM, str(tmp_path / "memory.csv")]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    told = subprocess.run(words, env=env, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout
    (warning,), metrics = json.loads(told)
    assert "memory.csv ends earlier than the run: " in warning
    assert "File too large" in warning
    assert metrics["peak_memory_bytes"] > MIB


def test_without_a_process_there_is_nothing_to_report_and_nothing_fails() -> None:
    sampler = MemorySampler(list)
    assert sampler.metrics() == {}
    sampler.stop()
    assert sampler.warnings() == ()
    sampler.start()
    sampler.stop()
    assert sampler.metrics() == {}, "memory that nobody saw is not known, and not zero"


def test_samplers_leave_no_thread_and_no_descriptor_behind(start_child: StartChild) -> None:
    child = start_child(SHARE, "kept-open", 10 * MIB, 10 * MIB)
    child.line()
    sampled(child.pids).stop()
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        sampled(child.pids).stop()
    assert threading.active_count() <= threads
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def test_an_average_weighs_each_value_by_the_time_it_held() -> None:
    quantity = TimeAverage()
    assert (quantity.peak, quantity.average) == (None, None)
    quantity.add(0.0, 10.0)
    assert (quantity.peak, quantity.average) == (10.0, 10.0)
    for moment in (1.0, 1.1, 1.2, 1.3):
        quantity.add(moment, 10.0)
    quantity.add(2.3, 30.0)
    assert quantity.peak == 30.0
    assert quantity.average == pytest.approx((1.3 * 10 + 1.0 * 20) / 2.3)
