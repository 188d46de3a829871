"""Samples the machine during the call of a Python benchmark: its process, what it started, and its clusters."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

from curator_bench.measure.gpu_witness import GpuWitness
from curator_bench.measure.processes import Mark, find_processes, identify
from curator_bench.measure.schedule import Schedule
from curator_bench.measure.tracers import tracer_here
from curator_bench.measure.witness import Witness
from curator_bench.runner.run_keys import PYTHON_RUN
from curator_bench.verdict.disturbance import TRACED_BY

if TYPE_CHECKING:
    from curator_bench.measure.sampler import Sampler

_SCHEDULES = pytest.StashKey[tuple[Schedule, Schedule]]()
_FIRST_LOOK_S = 0.2
"""A shorter benchmark has hardly started anything, and a look takes some milliseconds."""
_LOOK_EVERY_S = 3.0
_LOOK_SHARE = 0.003


class WitnessHooks:
    """Runs the samplers of the machine around the call of each Python benchmark. Registered with --benchmark."""

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        run = item.stash.get(PYTHON_RUN, None)
        if run is None:
            return (yield)
        if tracer := tracer_here():
            run.note_metrics({TRACED_BY: tracer})
        samplers = _samplers(item.config)
        for sampler in samplers:
            sampler.start()
        try:
            return (yield)
        finally:
            for sampler in samplers:
                sampler.stop()
                run.note_metrics(sampler.metrics())
                run.warnings += sampler.warnings()


def _samplers(config: pytest.Config) -> list[Sampler]:
    if _SCHEDULES not in config.stash:
        config.stash[_SCHEDULES] = Schedule(), Schedule()
    schedule, gpu_schedule = config.stash[_SCHEDULES]
    family = _Family(config)
    return [Witness(family.pids, schedule=schedule), GpuWitness(family.pids, schedule=gpu_schedule)]


class _Family:
    """This process and all that it started. They are looked up now and then, as that costs some milliseconds."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._known = [os.getpid()]
        self._began = time.monotonic()
        self._due = self._began + _FIRST_LOOK_S

    def pids(self) -> list[int]:
        now = time.monotonic()
        if now >= self._due:
            before = time.thread_time()
            self._known = [os.getpid(), *self._others()]
            cost_s = time.thread_time() - before
            self._due = now + max(min(_LOOK_EVERY_S, now - self._began), cost_s / _LOOK_SHARE)
        return self._known

    def _others(self) -> list[int]:
        from curator_bench.runner.running import marker_of

        marker = marker_of(self._config)
        mark = Mark(marker) if marker else None
        return [one.pid for one in find_processes(mark, settle=False, under=identify(os.getpid()))]
