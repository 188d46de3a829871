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
from curator_bench.measure.ray_data_log import Operator, RayDataLog
from curator_bench.measure.ray_stages import ray_stages
from curator_bench.values import Stage

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

    def __init__(
        self,
        python: str,
        env: Mapping[str, str],
        *,
        session_dir: Path | None = None,
        programs: RayTaskPrograms | None = None,
        is_new: bool = False,
    ) -> None:
        """Take the cluster's interpreter, and an environment with its address and token.

        `session_dir` has Ray's logs; without it the times of Ray Data's operators are unknown. `programs` is for a
        script, whose drivers have ended at `stop`: it then takes half a second, or less without a driver, and tasks
        that nobody tells of are normal. `is_new` says that the cluster has run nothing yet.
        """
        self._python = python
        self._env = env
        self._log = RayDataLog(session_dir)
        self._operators: Mapping[str, Operator] = {}
        self._programs = programs
        self._is_new = is_new
        self._awaits_ready = False
        self._program: Program | None = None
        self._began_ns = 0
        self._found: dict[str, Any] = {}
        self._warnings: list[str] = []

    def start(self) -> None:
        """Start; return once the cluster has answered, so that the connection is not measured."""
        try:
            self._program, self._awaits_ready = self._begun()
        except ProgramFailed as failure:
            self._fail(failure)
        self._log.mark()
        self._began_ns = time.time_ns()

    def _begun(self) -> tuple[Program, bool]:
        """Return the program, and whether it is still getting ready, as it may beside a script on a new cluster."""
        command = Command(self._python, _PROGRAM, self._env, arguments=("new",) if self._is_new else ())
        program, is_started = self._programs.of(command) if self._programs else (Program(command), True)
        if self._programs and self._is_new and is_started:
            return program, True
        self._program = program
        if not is_started:
            program.ask({"begin": True})
        program.answer(_READY_WITHIN_S)
        return program, False

    def stop(self) -> None:
        """Stop; return a second or two later, because Ray collects events that long before it reports them."""
        if self._program is None:
            return
        try:
            ended_ns = time.time_ns()
            if self._awaits_ready:
                self._program.answer(_READY_WITHIN_S)
            is_over = self._programs is not None
            self._program.ask({"began_ns": self._began_ns, "ended_ns": ended_ns, "is_over": is_over})
            self._found = self._program.answer(_ANSWERS_WITHIN_S)
            self._operators, problem = self._log.operators()
            self._warnings += [problem] if problem else []
        except ProgramFailed as failure:
            self._fail(failure)
        self.cancel()

    def cancel(self) -> None:
        """Stop without asking for results."""
        program, self._program = self._program, None
        if program is not None and self._programs is None:
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
            found["restored_bytes"] = int(disk["restored_bytes_total"])
        if (peak := self._found.get("store_peak")) is not None:
            found["peak_object_store_bytes"] = int(peak)
        if tasks is not None:
            found["ray_retries"] = sum(stage.retries for stage in self.stages())
            found["ray_failures"] = sum(stage.failures for stage in self.stages())
        return found

    def stages(self) -> tuple[Stage, ...]:
        """Stages of the time from `start` to `stop`, by the names of tasks, methods and operators."""
        if self._found.get("tasks") is None and not self._found.get("stages"):
            return ()
        return ray_stages(self._found.get("stages", ()), self._operators)

    def warnings(self) -> tuple[str, ...]:
        problems = self._found.get("problems", ()) if self._programs is None else ()
        return (*self._warnings, *problems)

    def _fail(self, failure: ProgramFailed) -> None:
        self._warnings.append(f"the times of tasks are unknown: {failure}")
        logger.warning("%s", self._warnings[-1])
        self.cancel()
        if self._programs is not None:
            self._programs.end()


class RayTaskPrograms:
    """The program that asks the cluster of a script, kept while the next script uses the same cluster."""

    def __init__(self) -> None:
        self._program: Program | None = None
        self._cluster: tuple[str, ...] = ()

    def of(self, command: Command) -> tuple[Program, bool]:
        """Return the program of a cluster, and whether it was started now. That of another cluster is ended."""
        cluster = (command.python, *(command.env.get(name, "") for name in ("RAY_ADDRESS", "RAY_AUTH_TOKEN")))
        if self._program is not None and self._cluster == cluster:
            return self._program, False
        self.end()
        self._program, self._cluster = Program(command), cluster
        return self._program, True

    def end(self) -> None:
        """End the program, if there is one."""
        program, self._program = self._program, None
        if program is not None:
            program.end()
