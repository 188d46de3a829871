"""The times of the tasks of a Ray cluster, by Ray's own events, and the bytes its object store wrote to disk.

Asking is left to `ray_tasks_program`, in a child process. Events of all drivers of the cluster count, each with the
part of it that lies between `start` and `stop`, by the clocks of the nodes.
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
    """`compute_time_s` (executing), `serializing_time_s` (reading arguments), `transfer_time_s` (storing results), each
    the sum of `ray_tasks` tasks, and where there were more, how many: `ray_tasks_without_times`. Further
    `disk_spill_time_s` (writing and reading back) and `spilled_bytes`. What Ray does not tell is left out.
    """

    def __init__(self, python: str, env: Mapping[str, str]) -> None:
        """The cluster's interpreter, and an environment with the address and what opens it."""
        self._python = python
        self._env = env
        self._program: Program | None = None
        self._began_ns = 0
        self._found: dict[str, Any] = {}
        self._warnings: list[str] = []

    def start(self) -> None:
        """Begin; returns when the cluster has answered, so that asking is not part of what is measured."""
        try:
            self._program = Program(Command(self._python, _PROGRAM, self._env))
            self._program.answer(_READY_WITHIN_S)
        except ProgramFailed as failure:
            self._fail(failure)
        self._began_ns = time.time_ns()

    def stop(self) -> None:
        """End; returns a second or two later, for Ray gathers events that long before it reports them."""
        if self._program is None:
            return
        try:
            self._program.ask({"began_ns": self._began_ns, "ended_ns": time.time_ns()})
            self._found = self._program.answer(_ANSWERS_WITHIN_S)
        except ProgramFailed as failure:
            self._fail(failure)
        self.cancel()

    def cancel(self) -> None:
        """End without asking for anything."""
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
        self._warnings.append(f"the times of tasks are not known: {failure}")
        logger.warning("%s", self._warnings[-1])
        self.cancel()
