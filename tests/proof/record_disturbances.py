"""Record real samples of the witness for `test_disturbance_proof.py`: `python tests/proof/record_disturbances.py FILE`.

Needs Linux with control groups (version 1) and root. The machine may be busy with other work: each process of a
recording is in a control group of great weight, so that the rest gets what is left over and a few percent. `quiet` is
therefore harder than a quiet machine.
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
from curator_bench.measure.usage import ProcReader
from curator_bench.measure.witness import Witness

GROUPS = Path("/sys/fs/cgroup/cpu")
WEIGHT = 262_144
PAUSE_S = 2.0
"""Others get their turn between two recordings."""
_STEP_S = 0.5
SPIN = "import time\nend = time.monotonic() + {0}\nwhile time.monotonic() < end: pass"
SLEEPY = (
    "import time\nend = time.monotonic() + {0}\nwhile time.monotonic() < end:\n"
    "    stop = time.monotonic() + 0.02\n    while time.monotonic() < stop: pass\n    time.sleep(0.01)"
)


def program(text: str, *values: float) -> list[str]:
    return [sys.executable, "-c", text.format(*values)]


def cases(seconds: float, cpus: int) -> dict[str, tuple[list[list[str]], list[list[str]]]]:
    """The programs of the run, and those beside it, by the name of the case. All outlast their recording."""
    burners = [program(SPIN, seconds)] * cpus
    workloads = {
        "one thread": [program(SPIN, seconds)],
        "a worker for each processor": [program(SPIN, seconds)] * cpus,
        "too many workers": [program(SPIN, seconds)] * 4 * cpus,
        "with pauses": [program(SLEEPY, seconds)],
    }
    found: dict[str, tuple[list[list[str]], list[list[str]]]] = {}
    for name, own in workloads.items():
        found[f"quiet, {name}"] = own, []
        found[f"burner, {name}"] = own, burners
    found["neighbour, one thread"] = (  # each bound to a core of its own, as if that of the run were free
        [["taskset", "--cpu-list", "0", *words] for words in workloads["one thread"]],
        [["taskset", "--cpu-list", "1", *words] for words in burners[:1]],
    )
    return found


def record(own: Sequence[Sequence[str]], beside: Sequence[Sequence[str]], seconds: float) -> list[dict[str, float]]:
    with started(beside, "beside") as others, started(own, "own") as run:
        wait_until_computing([*run, *others])
        moments = Moments([one.pid for one in run])
        moments.watch(seconds)
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
            time.sleep(_STEP_S)
            now = take(self._pids)
            assert before is not None
            assert now is not None
            first, last = asdict(before), asdict(now)
            step = {name: last[name] - first[name] for name in ("at", "own_s", "ran_s", "waited_s")}
            machine = {name: last["machine"][name] - first["machine"][name] for name in ("busy_s", "stolen_s")}
            self.steps.append({name: round(value, 4) for name, value in {**step, **machine}.items()})
            before = now


def wait_until_computing(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait until all have started, and the scheduler has had time to find places for them."""
    reader = ProcReader()
    while any((usage := reader.usage(one.pid)) is None or usage.cpu_s < 0.15 for one in processes):
        time.sleep(0.05)
    time.sleep(0.3)


@contextmanager
def started(programs: Sequence[Sequence[str]], name: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    groups = [GROUPS / f"curator-bench-{name}-{number}" for number in range(len(programs))]
    running = [subprocess.Popen(words) for words in programs]
    try:
        for group, one in zip(groups, running, strict=True):
            group.mkdir()
            (group / "cpu.shares").write_text(str(WEIGHT))
            (group / "cgroup.procs").write_text(str(one.pid))
        yield running
    finally:
        for group, one in zip(groups, running, strict=True):
            one.kill()
            one.wait()
            if group.is_dir():
                group.rmdir()


def main(file: str, rounds: int, seconds: float) -> None:
    cpus = len(os.sched_getaffinity(0))
    found: dict[str, list[dict[str, float]]] = {}
    own = GROUPS / "curator-bench-recorder"
    own.mkdir()
    (own / "cpu.shares").write_text(str(WEIGHT))
    (own / "cgroup.procs").write_text(str(os.getpid()))
    try:
        record_all(file, rounds, seconds, cpus, found)
    finally:
        (GROUPS / "cgroup.procs").write_text(str(os.getpid()))
        own.rmdir()


def record_all(file: str, rounds: int, seconds: float, cpus: int, found: dict[str, list[dict[str, float]]]) -> None:
    for _ in range(rounds):
        for name, (own, beside) in cases(3600, cpus).items():
            found.setdefault(name, []).extend(record(own, beside, seconds))
            time.sleep(PAUSE_S)
        Path(file).write_text(json.dumps({"cpus": cpus, "steps": found}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
