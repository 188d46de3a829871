"""Record real samples of the witness for `test_disturbance_proof.py`: `python tests/proof/record_disturbances.py FILE`.

Needs Linux with control groups (version 1) and root. The machine may be busy with other work: all that belongs to a
recording is in a control group of great weight, so that the rest only gets what is left over. `quiet` is therefore
harder than a quiet machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from curator_bench.measure.schedule import Schedule
from curator_bench.measure.witness import Witness

GROUP = Path("/sys/fs/cgroup/cpu/curator-bench-recording")
WEIGHT = 262_144
SPIN = "import time\nend = time.monotonic() + {0}\nwhile time.monotonic() < end: pass"
SLEEPY = (
    "import time\nend = time.monotonic() + {0}\nwhile time.monotonic() < end:\n"
    "    stop = time.monotonic() + 0.02\n    while time.monotonic() < stop: pass\n    time.sleep(0.01)"
)
THREADS = (
    "import hashlib, threading, time\nend = time.monotonic() + {0}\nblock = bytes(1 << 20)\n"
    "def work():\n    while time.monotonic() < end: hashlib.sha256(block).digest()\n"
    "threads = [threading.Thread(target=work) for _ in range({1})]\n"
    "[one.start() for one in threads]; [one.join() for one in threads]"
)


def program(text: str, *values: float) -> list[str]:
    return [sys.executable, "-c", text.format(*values)]


def cases(seconds: float, cpus: int) -> dict[str, tuple[list[list[str]], list[list[str]]]]:
    """The programs of the run, and those beside it, by the name of the case."""
    burners = [program(SPIN, seconds)] * cpus
    workloads = {
        "one thread": [program(SPIN, seconds)],
        "threads": [program(THREADS, seconds, cpus)],
        "too many workers": [program(SPIN, seconds)] * 4 * cpus,
        "with pauses": [program(SLEEPY, seconds)],
    }
    found: dict[str, tuple[list[list[str]], list[list[str]]]] = {}
    for name, own in workloads.items():
        found[f"quiet, {name}"] = own, []
        found[f"burner, {name}"] = own, burners
    found["neighbour, one thread"] = workloads["one thread"], burners[:1]
    found["neighbour, with pauses"] = workloads["with pauses"], burners[:1]
    return found


def record(own: Sequence[Sequence[str]], beside: Sequence[Sequence[str]], seconds: float) -> list[dict[str, float]]:
    with started(beside), started(own) as run:
        time.sleep(0.3)  # imports
        moments = Moments([one.pid for one in run])
        moments.watch(seconds - 0.8)
    return moments.steps


class Moments:
    """The witness's own samples, as they are."""

    def __init__(self, pids: list[int]) -> None:
        self.steps: list[dict[str, float]] = []
        self._pids = pids
        self._witness = Witness(lambda: pids, waiting_pids=lambda: [os.getpid()], schedule=Schedule())

    def watch(self, seconds: float) -> None:
        take = self._witness.moment
        before, end = take(self._pids), time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(min(1.0, max(0.2, end - time.monotonic())))
            now = take(self._pids)
            assert before is not None and now is not None
            first, last = asdict(before), asdict(now)
            step = {name: last[name] - first[name] for name in ("at", "own_s", "ran_s", "waited_s")}
            machine = {name: last["machine"][name] - first["machine"][name] for name in ("busy_s", "stolen_s")}
            self.steps.append({name: round(value, 4) for name, value in {**step, **machine}.items()})
            before = now


@contextmanager
def started(programs: Sequence[Sequence[str]]) -> Iterator[list[subprocess.Popen[bytes]]]:
    running = [subprocess.Popen(words) for words in programs]
    try:
        yield running
    finally:
        for one in running:
            one.kill()
            one.wait()


def main(file: str, rounds: int, seconds: float) -> None:
    GROUP.mkdir(exist_ok=True)
    (GROUP / "cpu.shares").write_text(str(WEIGHT))
    (GROUP / "cgroup.procs").write_text(str(os.getpid()))
    cpus = len(os.sched_getaffinity(0))
    found: dict[str, list[dict[str, float]]] = {}
    try:
        for _ in range(rounds):
            for name, (own, beside) in cases(seconds, cpus).items():
                found.setdefault(name, []).extend(record(own, beside, seconds))
            Path(file).write_text(json.dumps({"cpus": cpus, "steps": found}) + "\n")
    finally:
        (GROUP.parent / "cgroup.procs").write_text(str(os.getpid()))
        GROUP.rmdir()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
