"""Memory of a cluster that we did not start, on all its machines. It is sampled there, by actors of a child process.

It counts as `memory` does: private memory of every process, and shared memory once. Linux only.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path

from curator_bench.measure.programs import Command, Program, ProgramFailed
from curator_bench.measure.samples import TimeAverage

logger = logging.getLogger(__name__)

_READY_WITHIN_S = 90.0
_ANSWERS_WITHIN_S = 60.0
_PROGRAM = Path(__file__).with_name("ray_memory_program.py")

Samples = Sequence[tuple[float, float]]


class RayMemorySampler:
    """Sampler of `peak_memory_bytes` and `average_memory_bytes` of all processes of a cluster, without drivers."""

    def __init__(self, python: str, env: Mapping[str, str]) -> None:
        """Take the cluster's interpreter, and an environment with its address and token."""
        self._python = python
        self._env = env
        self._program: Program | None = None
        self._began = 0.0
        self._memory = TimeAverage()
        self._warnings: list[str] = []

    def start(self) -> None:
        """Start; return once all machines are sampled."""
        try:
            self._program = Program(Command(self._python, _PROGRAM, self._env))
            self._program.answer(_READY_WITHIN_S)
        except ProgramFailed as failure:
            self._fail(failure)
        self._began = time.time()

    def stop(self) -> None:
        ended = time.time()
        if self._program is None:
            return
        try:
            self._program.ask({"stop": True})
            found = self._program.answer(_ANSWERS_WITHIN_S)
        except ProgramFailed as failure:
            self._fail(failure)
            return
        self._warnings += found["problems"]
        for moment, held in totals(found["samples"], self._began, ended):
            self._memory.add(moment, held)
        self._end()

    def metrics(self) -> dict[str, float | int]:
        peak, average = self._memory.peak, self._memory.average
        if not peak or average is None:
            return {}
        return {"peak_memory_bytes": int(peak), "average_memory_bytes": int(average)}

    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)

    def _end(self) -> None:
        program, self._program = self._program, None
        if program is not None:
            program.end()

    def _fail(self, failure: ProgramFailed) -> None:
        self._warnings.append(f"the memory of the cluster is unknown: {failure}")
        logger.warning("%s", self._warnings[-1])
        self._end()


def totals(machines: Sequence[Samples], began: float, ended: float) -> list[tuple[float, float]]:
    """Sum the machines' memory at every moment from `began` to `ended` at which one was sampled.

    Between two samples a machine counts with the earlier one, and before its first sample with that one.
    """
    moments = {min(max(moment, began), ended) for samples in machines for moment, _ in samples} | {began, ended}
    return [(moment, sum(_held(samples, moment) for samples in machines)) for moment in sorted(moments) if machines]


def _held(samples: Samples, moment: float) -> float:
    """Memory at a moment, from the last sample before it. Samples are ordered by time."""
    later = bisect_right(samples, moment, key=itemgetter(0))
    return samples[max(0, later - 1)][1]
