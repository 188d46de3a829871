"""Program that samples the memory of a cluster we did not start. It runs by path, in the cluster's interpreter.

It imports nothing of ours. It is a driver with one small actor per machine, which samples in its own thread; it submits
no tasks while the benchmark runs.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

OWN_DIRECTORY = os.path.dirname(os.path.abspath(__file__))
STARTS_WITHIN_S = 60.0
ANSWERS_WITHIN_S = 20.0
SAMPLE_EVERY_S = 1.0
FIRST_SAMPLES_EVERY_S = 0.1
LOOK_UP_EVERY_S = 5.0
BLOCK_BYTES = 512


def main() -> None:
    sys.path[:] = [path for path in sys.path if path != OWN_DIRECTORY]
    with os.fdopen(int(sys.argv[1]), "w", buffering=1) as answers:
        os.set_inheritable(answers.fileno(), False)
        try:
            samplers = start_samplers()
            answers.write(json.dumps({"ready": True}) + "\n")
            for _ in sys.stdin:
                answers.write(json.dumps(collected(samplers)) + "\n")
                break
        except Exception as error:  # any exception of Ray becomes the answer
            answers.write(json.dumps({"failed": in_words(error)}) + "\n")
    os._exit(0)  # actors end with their driver; a clean shutdown is slow


def start_samplers() -> dict[str, Any]:
    """Start one actor per machine, by address. Nodes that share an address are sampled once."""
    ray: Any = importlib.import_module("ray")
    strategies: Any = importlib.import_module("ray.util.scheduling_strategies")
    ray.init(namespace="curator-bench-memory", log_to_driver=False, logging_level=logging.ERROR)
    session = os.path.basename(importlib.import_module("ray._private.worker").global_worker.node.get_session_dir_path())
    machines = {node["NodeManagerAddress"]: node["NodeID"] for node in ray.nodes() if node["Alive"]}
    actor_class = ray.remote(CuratorBenchMemory)
    samplers = {}
    for address, node in machines.items():
        where = strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        samplers[address] = actor_class.options(num_cpus=0, scheduling_strategy=where).remote(session)
    ray.get([sampler.start.remote() for sampler in samplers.values()], timeout=STARTS_WITHIN_S)
    return samplers


def collected(samplers: dict[str, Any]) -> dict[str, Any]:
    """Collect the samples of each machine: the time by its own clock, and the bytes."""
    ray: Any = importlib.import_module("ray")
    answers = {address: sampler.stop.remote() for address, sampler in samplers.items()}
    samples, problems = [], []
    for address, answer in answers.items():
        try:
            found, problem = ray.get(answer, timeout=ANSWERS_WITHIN_S)
        except Exception as error:  # a lost machine's samples are lost too
            found, problem = [], in_words(error)
        if found:
            samples.append(found)
        if problem:
            problems.append(f"memory of {address}: {problem}")
    return {"samples": samples, "problems": problems}


class CuratorBenchMemory:
    """Sampler of the processes of one Ray session on this machine, except itself."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._samples: list[tuple[float, int]] = []
        self._problem = ""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._pids: set[int] = set()
        self._look_up_due = 0.0

    def start(self) -> None:
        self._sample()
        self._thread.start()

    def stop(self) -> tuple[list[tuple[float, int]], str]:
        self._stopped.set()
        self._thread.join(SAMPLE_EVERY_S)
        self._look_up_due = 0.0
        self._sample()
        return self._samples, self._problem

    def _run(self) -> None:
        pause_s = FIRST_SAMPLES_EVERY_S
        while not self._stopped.wait(pause_s):
            self._sample()
            pause_s = min(SAMPLE_EVERY_S, 1.5 * pause_s)

    def _sample(self) -> None:
        try:
            if time.monotonic() >= self._look_up_due:
                self._look_up_due = time.monotonic() + LOOK_UP_EVERY_S
                self._pids = processes_of(self._session) - {os.getpid()}
            held = sum(map(private_bytes, self._pids)) + shared_bytes(self._pids)
            self._samples.append((time.time(), held))
        except Exception as error:  # reported at the end
            self._problem = in_words(error)


def processes_of(session: str) -> set[int]:
    """Find the processes that name the session in their command, and their descendants."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    children: dict[int, list[int]] = {}
    for pid in pids:
        children.setdefault(parent_of(pid), []).append(pid)
    waiting = [pid for pid in pids if session.encode() in read(f"/proc/{pid}/cmdline")]
    found = set(waiting)
    while waiting:
        new = [pid for pid in children.get(waiting.pop(), ()) if pid not in found]
        found.update(new)
        waiting.extend(new)
    return found


def parent_of(pid: int) -> int:
    fields = read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def private_bytes(pid: int) -> int:
    pages = read(f"/proc/{pid}/statm").split()
    return max(0, int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 2 else 0


def shared_bytes(pids: Iterable[int]) -> int:
    """Bytes of the in-memory files these processes have open, such as Ray's object store, each once."""
    held: dict[tuple[int, int], int] = {}
    for pid in pids:
        for path in descriptors(pid):
            try:
                if os.readlink(path).startswith(("/dev/shm/", "/memfd:")):
                    status = os.stat(path)
                    held[status.st_dev, status.st_ino] = status.st_blocks * BLOCK_BYTES
            except OSError:  # closed meanwhile
                continue
    return sum(held.values())


def descriptors(pid: int) -> list[str]:
    try:
        return [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]
    except OSError:  # gone, or another user's
        return []


def read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall()
    except OSError:  # gone meanwhile
        return b""


def in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


if __name__ == "__main__":
    main()
