"""Real programs beside real programs. What else the machine does must not matter.

A burner shares the cores that the run is bound to, so a busy machine only adds to it. Whether a machine is quiet cannot
be arranged: a run that is marked without a burner must really have had others beside it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from curator_bench.measure.processes import find_processes
from curator_bench.measure.witness import Witness
from curator_bench.verdict.disturbance import disturbance

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")]

SPIN = "while True: pass"
CASES = {
    "one process": [SPIN],
    "a process for each core": [SPIN] * 2,
    "too many workers": [SPIN] * 6,
    "threads that compute outside of the interpreter's lock": [
        "import hashlib, threading\nblock = bytes(1 << 20)\n"
        "def work():\n    while True: hashlib.sha256(block).digest()\n"
        "[threading.Thread(target=work).start() for _ in range(2)]"
    ],
    "children that come and go": [
        "import subprocess, sys\nwhile True: subprocess.run([sys.executable, '-c', 'sum(range(10**6))'])"
    ],
}
CORES = sorted(os.sched_getaffinity(0))[:2] if sys.platform == "linux" else []


@contextmanager
def running(programs: Sequence[str]) -> Iterator[list[int]]:
    bound = ["taskset", "--cpu-list", ",".join(map(str, CORES)), sys.executable, "-c"]
    started = [subprocess.Popen([*bound, program], start_new_session=True) for program in programs]
    try:
        yield [one.pid for one in started]
    finally:
        for one in started:
            os.killpg(one.pid, 9)
            one.wait()


def watched(programs: Sequence[str], burners: int) -> Witness:
    with running(programs) as ours:
        witness = Witness(lambda: [one.pid for one in find_processes(None, ours, settle=False)], cpus=len(CORES))
        witness.start()
        time.sleep(1.6)
        with running([SPIN] * burners):
            time.sleep(0.8)
        witness.stop()
    return witness


@pytest.mark.parametrize("case", CASES)
def test_a_burner_on_all_cores_during_a_third_of_a_run_is_noticed(case: str) -> None:
    witness = watched(CASES[case], burners=2 * len(CORES))
    found = disturbance(witness.metrics())
    assert found is not None
    assert found.is_disturbed, witness.metrics()


@pytest.mark.parametrize("case", CASES)
def test_a_run_alone_is_not_marked_unless_others_really_took_its_processors(case: str) -> None:
    witness = watched(CASES[case], burners=0)
    metrics = witness.metrics()
    found = disturbance(metrics)
    assert found is not None
    seconds, others = metrics["machine.seconds"], metrics["machine.others_cpu_s"]
    assert isinstance(seconds, float)
    assert isinstance(others, float)
    assert not found.is_disturbed or others > 0.04 * seconds, metrics
