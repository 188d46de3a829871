"""Times of a Ray cluster's tasks from Ray's own events, and bytes its object store wrote to disk.

`ray_tasks_program` asks the cluster, in a child process. Events of all drivers count, each with the part that lies
between `start` and `stop`, by the clocks of the nodes.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

from curator_bench.measure.programs import Command, Program, ProgramFailed
from curator_bench.measure.ray_data_log import Operator, RayDataLog
from curator_bench.measure.ray_drivers import RayDrivers
from curator_bench.measure.ray_stages import ray_stages
from curator_bench.measure.schedule import Job, Schedule
from curator_bench.values import Stage

logger = logging.getLogger(__name__)

_READY_WITHIN_S = 60.0
_ANSWERS_WITHIN_S = 60.0
_LOOKS_EVERY_S = 0.25
_SHARE_OF_A_CORE = 0.001
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
        script, whose drivers have ended at `stop`: it then takes half a second, or nothing if no driver came, and tasks
        that nobody tells of are normal. `is_new` says that we started the cluster: nobody used it before its first
        script.
        """
        self._command = Command(python, _PROGRAM, env)
        self._log = RayDataLog(session_dir)
        self._drivers = RayDrivers(session_dir, env)
        self._programs = programs
        self._is_new = is_new
        self._awaits_ready = False
        self._program: Program | None = None
        self._watch: Job | None = None
        self._began_ns = 0
        self._metrics: dict[str, float | int] = {}
        self._stages: tuple[Stage, ...] = ()
        self._warnings: list[str] = []

    def start(self) -> None:
        """Start; return once the cluster has answered, so that the connection is not measured.

        A script on a cluster of ours is not kept waiting: nothing is asked before its first driver connects.
        """
        try:
            self._begin()
        except ProgramFailed as failure:
            self._fail(failure)
        self._log.mark()
        self._began_ns = time.time_ns()

    def _begin(self) -> None:
        programs = self._programs
        if programs is None:
            self._program = Program(self._command)
        elif (running := programs.running(self._command)) is not None:
            self._program = running
            running.ask({"begin": True})
        elif not self._is_new or programs.has_asked(self._command):
            self._program = programs.start(self._command)
        elif self._drivers.mark():
            self._watch = Job("waiting for drivers of Ray", self._look, self._looks_again, _SHARE_OF_A_CORE)
            programs.schedule.add(self._watch)
            return
        else:
            self._start_beside()
            return
        self._program.answer(_READY_WITHIN_S)

    def _start_beside(self) -> None:
        """Start the program, which gets ready beside the script: a new cluster has counted nothing before it."""
        assert self._programs is not None
        self._program, self._awaits_ready = self._programs.start(self._command, "new"), True

    def _look(self) -> None:
        """Start the program when the first driver has come. Called on the thread of the schedule."""
        if self._program is None and not self._warnings and self._drivers.has_come():
            try:
                self._start_beside()
            except ProgramFailed as failure:
                self._fail(failure)

    def _looks_again(self, _: float) -> float:
        return _LOOKS_EVERY_S if self._program is None else _READY_WITHIN_S

    def _stop_looking(self) -> None:
        """Look a last time."""
        watch, self._watch = self._watch, None
        if watch is not None and self._programs is not None:
            self._programs.schedule.remove(watch)

    def stop(self) -> None:
        """Stop; return a second or two later, because Ray collects events that long before it reports them."""
        ended_ns = time.time_ns()
        self._stop_looking()
        if self._program is None:
            return
        try:
            if self._awaits_ready:
                self._program.answer(_READY_WITHIN_S)
            is_over = self._programs is not None
            self._program.ask({"began_ns": self._began_ns, "ended_ns": ended_ns, "is_over": is_over})
            self._take(self._program.answer(_ANSWERS_WITHIN_S))
        except ProgramFailed as failure:
            self._fail(failure)
        except Exception as error:  # clusters of others tell anything, and a sampler never fails a run
            self._fail(ProgramFailed(f"the cluster told what makes no sense: {type(error).__name__}: {error}"))
        except BaseException:  # nobody takes the answer that is still to come
            self._end()
            raise
        self.cancel()

    def _take(self, found: Mapping[str, Any]) -> None:
        operators: Mapping[str, Operator]
        operators, problem = self._log.operators()
        tasks, told = found.get("tasks"), found.get("stages") or ()
        if tasks is not None or told:
            self._stages = ray_stages(told, operators)
        self._metrics = {**_task_metrics(tasks, self._stages), **_store_metrics(found)}
        # A driver that ended tells no more, so only what Ray has forgotten of it is worth a line.
        is_said = self._programs is None or found.get("forgotten")
        self._warnings += [*filter(None, [problem]), *(map(str, found.get("problems") or ()) if is_said else ())]

    def cancel(self) -> None:
        """Stop without asking for results."""
        self._stop_looking()
        program, self._program = self._program, None
        if program is not None and self._programs is None:
            program.end()

    def metrics(self) -> dict[str, float | int]:
        return dict(self._metrics)

    def stages(self) -> tuple[Stage, ...]:
        """Stages of the time from `start` to `stop`, by the names of tasks, methods and operators."""
        return self._stages

    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)

    def _fail(self, failure: ProgramFailed) -> None:
        self._warnings.append(f"the times of tasks are unknown: {failure}")
        logger.warning("%s", self._warnings[-1])
        self._end()

    def _end(self) -> None:
        program, self._program = self._program, None
        if self._programs is not None:
            self._programs.end()
        elif program is not None:
            program.end()


def _task_metrics(tasks: Mapping[str, Any] | None, stages: tuple[Stage, ...]) -> dict[str, float | int]:
    if tasks is None:
        return {}
    seconds = {metric: round(float(tasks[name]), 6) for metric, name in _SECONDS.items() if _is_number(tasks.get(name))}
    return {
        **seconds,
        "ray_tasks": int(tasks["count"]),
        **({"ray_tasks_without_times": int(tasks["silent"])} if tasks["silent"] else {}),
        "ray_retries": sum(stage.retries for stage in stages),
        "ray_failures": sum(stage.failures for stage in stages),
    }


def _store_metrics(found: Mapping[str, Any]) -> dict[str, float | int]:
    disk = {name: value for name, value in (found.get("disk") or {}).items() if _is_number(value)}
    metrics: dict[str, float | int] = {}
    if {"spill_time_total_s", "restore_time_total_s"} <= set(disk):
        metrics["disk_spill_time_s"] = round(disk["spill_time_total_s"] + disk["restore_time_total_s"], 6)
    for metric in ("spilled_bytes", "restored_bytes"):
        if metric + "_total" in disk:
            metrics[metric] = int(disk[metric + "_total"])
    peak = found.get("store_peak")
    if _is_number(peak):
        metrics["peak_object_store_bytes"] = int(peak)
    return metrics


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


class RayTaskPrograms:
    """The program that asks the cluster of a script, kept while the next script uses the same cluster."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self._program: Program | None = None
        self._cluster: tuple[str, ...] = ()
        self._asked: set[tuple[str, ...]] = set()

    def running(self, command: Command) -> Program | None:
        """Return the program of a cluster if it is there. That of another cluster is ended."""
        if self._cluster != _cluster_of(command):
            self.end()
        return self._program

    def has_asked(self, command: Command) -> bool:
        """True if the cluster had a program before. Its counters are no longer those of a new cluster."""
        return _cluster_of(command) in self._asked

    def start(self, command: Command, *arguments: str) -> Program:
        """Start the program of a cluster."""
        self.end()
        self._cluster = _cluster_of(command)
        self._asked.add(self._cluster)
        self._program = Program(replace(command, arguments=arguments))
        return self._program

    def end(self) -> None:
        """End the program, if there is one."""
        program, self._program = self._program, None
        if program is not None:
            program.kill()


def _cluster_of(command: Command) -> tuple[str, ...]:
    return (command.python, *(command.env.get(name, "") for name in ("RAY_ADDRESS", "RAY_AUTH_TOKEN")))
