"""Times of a Ray cluster's tasks from Ray's own events, and bytes its object store wrote to disk.

`ray_tasks_program` asks the cluster, in a child process. Events of all drivers count, each with the part that lies
between `start` and `stop`, by the clocks of the nodes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from curator_bench.measure.programs import Command, Program, ProgramFailed

logger = logging.getLogger(__name__)

_READY_WITHIN_S = 60.0
_ANSWERS_WITHIN_S = 60.0
_PROGRAM = Path(__file__).with_name("ray_tasks_program.py")
_SECONDS = {"compute_time_s": "execute", "serializing_time_s": "deserialize", "transfer_time_s": "store"}


class RayTaskSampler:
    """Sampler of the times of Ray's tasks, and of spilling.

    `compute_time_s` (executing), `serializing_time_s` (reading arguments) and `transfer_time_s` (storing results) are
    sums over `ray_tasks` tasks. `ray_tasks_without_times` counts the tasks without times, if any. `disk_spill_time_s`
    is writing and reading back, `spilled_bytes` the bytes written. Metrics that Ray does not report are left out.
    """

    def __init__(self, python: str, env: Mapping[str, str]) -> None:
        """Take the cluster's interpreter, and an environment with its address and token."""
        self._python = python
        self._env = env
        self._program: Program | None = None
        self._began_ns = 0
        self._found: dict[str, Any] = {}
        self._warnings: list[str] = []

    def start(self) -> None:
        """Start; return once the cluster has answered, so that the connection is not measured."""
        try:
            self._program = Program(Command(self._python, _PROGRAM, self._env))
            self._program.answer(_READY_WITHIN_S)
        except ProgramFailed as failure:
            self._fail(failure)
        self._began_ns = time.time_ns()

    def stop(self) -> None:
        """Stop; return a second or two later, because Ray collects events that long before it reports them."""
        if self._program is None:
            return
        try:
            self._program.ask({"began_ns": self._began_ns, "ended_ns": time.time_ns()})
            self._found = self._program.answer(_ANSWERS_WITHIN_S)
        except ProgramFailed as failure:
            self._fail(failure)
        self.cancel()

    def cancel(self) -> None:
        """Stop without asking for results."""
        program, self._program = self._program, None
        if program is not None:
            program.end()

    def metrics(self) -> dict[str, float | int]:
        tasks, disk = self._found.get("tasks"), self._found.get("disk")
        found: dict[str, float | int] = {}
        if tasks is not None:
            found.update({metric: round(tasks[name], 6) for metric, name in _SECONDS.items()}, ray_tasks=tasks["count"])
            found.update({"ray_tasks_without_times": tasks["silent"]} if tasks["silent"] else {})
        if disk is not None:
            found["disk_spill_time_s"] = round(disk["spill_time_total_s"] + disk["restore_time_total_s"], 6)
            found["spilled_bytes"] = int(disk["spilled_bytes_total"])
        return found

    def warnings(self) -> tuple[str, ...]:
        return (*self._warnings, *self._found.get("problems", ()))

    def _fail(self, failure: ProgramFailed) -> None:
        self._warnings.append(f"the times of tasks are unknown: {failure}")
        logger.warning("%s", self._warnings[-1])
        self.cancel()
