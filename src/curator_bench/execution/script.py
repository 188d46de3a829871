"""One execution of a run's script: its command, its processes, its measurements, its result files."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from curator_bench.cluster.health import ended_under, is_alive
from curator_bench.cluster.model import Cluster
from curator_bench.cluster.options import object_store_bytes
from curator_bench.cluster.shared_memory import Segments
from curator_bench.execution.child import Child, Ended
from curator_bench.execution.directories import Directories, clear_results, with_entry_dir
from curator_bench.execution.environment import script_environment
from curator_bench.execution.missing_modules import missing_module
from curator_bench.execution.profiling import Profiling
from curator_bench.execution.result_files import ResultFiles, read_result_files
from curator_bench.execution.stage_lines import read_stage_lines
from curator_bench.execution.status import Status
from curator_bench.execution.workbench import Workbench
from curator_bench.files import safe_files
from curator_bench.files.json_files import tail
from curator_bench.masking import Mask, masked
from curator_bench.measure.cgroup import memory_kills
from curator_bench.measure.gpu import GpuSampler
from curator_bench.measure.gpu_witness import GpuWitness
from curator_bench.measure.memory import MemorySampler
from curator_bench.measure.named_stages import in_bounds
from curator_bench.measure.processes import find_processes
from curator_bench.measure.ray_tasks import RayTaskSampler
from curator_bench.measure.sampler import CustomSampler, SampledRun, Sampler
from curator_bench.measure.schedule import Schedule
from curator_bench.measure.witness import Witness
from curator_bench.stages import STAGES_FILE
from curator_bench.values import Cause, Plan, Profile, Scalar, Stage, Verdict

RESULTS_OPTION = "--benchmark-results-path"
PARAMS_FILE = "params.json"
_FULL_DISK_BYTES = 1 << 20
_LINES_OF_A_TRACEBACK = 50
_KILLED_FOR_MEMORY = "; meanwhile the kernel killed a process of this machine because memory ran out"


@dataclass(frozen=True, slots=True)
class Execution:
    """Result of one execution. `verdict` does not consider requirements yet."""

    verdict: Verdict
    error: str
    exit_code: int | None
    seconds: float
    directories: Directories
    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Scalar] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    cause: Cause | None = None
    stages: tuple[Stage, ...] = ()
    profiles: tuple[Profile, ...] = ()
    samples: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


def command_words(plan: Plan, directories: Directories) -> tuple[list[str], Path]:
    """Words of the command, and the directory the script writes its results to."""
    words = [with_entry_dir(word, directories.top) for word in plan.args]
    said = _said_results_dir(words)
    if said is None:
        said = str(directories.results)
        words += [RESULTS_OPTION, said]
    return [plan.python, plan.script, *words], Path(plan.working_dir, said or directories.results)


def _said_results_dir(words: list[str]) -> str | None:
    """Value of the results option; None if absent, empty without a value, about which the script will complain."""
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        if word == RESULTS_OPTION:
            return following
        if word.startswith(RESULTS_OPTION + "="):
            return word.partition("=")[2]
    return None


def mask_of(plan: Plan, cluster: Cluster | None) -> Mask:
    """Mask of the run's secrets, including the token of its cluster."""
    return plan.mask.also(frozenset([cluster.token])) if cluster and cluster.token else plan.mask


@dataclass(frozen=True, slots=True)
class Shared:
    """Resources that the executions of one attempt share."""

    cluster: Cluster | None
    bench: Workbench
    status: Status
    segments: Segments
    """The run's shared memory, noted before its processes are ended and removed after the cluster."""


def execute(plan: Plan, directories: Directories, shared: Shared, *, is_profiled: bool = False) -> Execution:
    """Run the script once and read its result files; under the plan's profiler, if asked to."""
    cluster = shared.cluster
    words, results = command_words(plan, directories)
    mask = mask_of(plan, cluster)
    shown = shlex.join(map(mask.hide, words)) + "\n"
    safe_files.write_text(directories.top / "command.txt", shown, below=directories.below)
    clear_results(results, directories.below_of(results))
    begun = _params_of(plan, cluster)
    if begun and results.is_dir():
        text = json.dumps(begun, indent=2) + "\n"
        safe_files.write_text(results / PARAMS_FILE, text, below=directories.below_of(results))
    own_env = {name: with_entry_dir(value, directories.top) for name, value in plan.env.items()}
    cluster_env = cluster.env if cluster else {}
    env = script_environment(own_env, cluster_env, shared.bench.marker, shared.bench.environ, python=plan.python)
    stage_lines = directories.top / "stages.jsonl"
    safe_files.remove(stage_lines, below=directories.below)
    env[STAGES_FILE] = str(stage_lines)
    profiling = Profiling(plan, env, cluster, directories.log) if is_profiled else None
    measured = _Measured(plan, directories, shared, env, profiling)
    kills_before = memory_kills()
    ended = measured.run(words)
    shared.status.now("reading results", directories.log)
    found = read_result_files(results, python=plan.python, env=env, below=directories.below_of(results))
    named, stage_warnings = read_stage_lines(stage_lines, measured.began, below=directories.below)
    with suppress(OSError):  # results.json has them
        safe_files.remove(stage_lines, below=directories.below)
    verdict, error, cause = _verdict(plan, ended, found, cluster, directories)
    if verdict is Verdict.CRASHED and memory_kills() > kills_before:
        error += _KILLED_FOR_MEMORY
    profiles = profiling.finish(has_passed=verdict is Verdict.PASSED) if profiling else ()
    own: dict[str, Scalar] = {"exec_time_s": ended.seconds}
    if ended.exit_code is not None:
        own["exit_code"] = ended.exit_code
    own.update(measured.metrics())
    return Execution(
        verdict=verdict,
        error=error,
        exit_code=ended.exit_code,
        seconds=ended.seconds,
        directories=directories,
        params=masked({**begun, **found.params}, mask),
        metrics={**masked(found.metrics, mask), **own},
        warnings=(
            *found.warnings,
            *stage_warnings,
            *_hidden(found, own),
            *measured.warnings(),
            *(profiling.warnings if profiling else ()),
        ),
        cause=cause,
        stages=in_bounds((*measured.stages(), *found.stages, *named)),
        profiles=profiles,
        samples=found.samples,
    )


def _params_of(plan: Plan, cluster: Cluster | None) -> dict[str, Scalar]:
    """Return the parameters of a run with Ray that its script did not choose.

    They are in params.json before it starts, as in NeMo Curator's runner, whose scripts add theirs. If a script writes
    the file anew, they are still among the parameters of the run.
    """
    if cluster is None or plan.ray is None:
        return {}
    store = object_store_bytes(plan.ray.object_store_size) or cluster.resources.get("object_store_memory")
    return {
        **({"object_store_size_bytes": int(store)} if store else {}),
        "ray_num_cpus": _whole(cluster.resources.get("CPU", 0)),
        "ray_num_gpus": _whole(cluster.resources.get("GPU", 0)),
        "ray_enable_object_spilling": plan.ray.enable_object_spilling,
        "entry_timeout_s": _whole(plan.timeout_s),
    }


def _whole(number: float) -> float:
    return int(number) if float(number).is_integer() else number


class _Measured:
    """A child process and its samplers, which run from before its start until just before its tree is ended."""

    def __init__(
        self,
        plan: Plan,
        directories: Directories,
        shared: Shared,
        env: Mapping[str, str],
        profiling: Profiling | None = None,
    ) -> None:
        self._plan, self._directories, self._shared, self._env = plan, directories, shared, env
        self._profiling = profiling
        self._child: Child | None = None
        self.began = time.monotonic()
        """When the script began, by the monotonic clock."""
        self._memory = MemorySampler(
            self._pids,
            waiting_pids=lambda: self._child.waits if self._child else (),
            schedule=shared.bench.schedule,
            csv_path=directories.top / "memory.csv",
            below=directories.below,
        )
        self._samplers: list[Sampler] = [self._memory, self._witness(shared.bench.schedule)]
        if plan.gpu_stats_interval_s > 0 and shared.bench.gpus_answer:
            path, interval = directories.top / "gpustats.csv", plan.gpu_stats_interval_s
            schedule = shared.bench.gpu_schedule
            self._samplers += [
                GpuSampler(
                    path,
                    below=directories.below,
                    interval_s=interval,
                    always=plan.gpu_stats_asked,
                    environ=env,
                    schedule=schedule,
                ),
                GpuWitness(self._memory.pids, environ=env, schedule=schedule),
            ]

        self._tasks = _task_sampler(shared, env)
        if self._tasks is not None:
            self._samplers.insert(0, self._tasks)
        run = SampledRun(plan.name, directories.top, self._pids, env)
        self._samplers += [CustomSampler(name, Path(plan.working_dir), run) for name in plan.samplers]

    def _witness(self, schedule: Schedule) -> Witness:
        """Make the sampler of the machine. The processes are those that the sampler of memory has looked up."""

        def waits() -> Collection[int]:
            return self._child.waits if self._child else ()

        return Witness(self._memory.pids, waiting_pids=waits, schedule=schedule)

    def run(self, words: list[str]) -> Ended:
        self._shared.bench.guard.wait_until_it_watches()
        if self._profiling is not None:
            words = self._profiling.command(words)
        for sampler in self._samplers:
            sampler.start()
        self.began = time.monotonic()
        try:
            self._child = Child(
                words,
                env=self._env,
                log=self._directories.log,
                below=self._directories.large_below,
                cwd=self._plan.working_dir,
            )
            self._shared.status.now("running", self._directories.log)
            self._memory.look_again()
            if self._profiling is not None:
                self._profiling.started(self._child.pid)
            return self._child.wait(self._plan.timeout_s)
        finally:
            try:
                for sampler in self._samplers:
                    sampler.stop()
                if self._profiling is not None:
                    self._profiling.stop()
            finally:
                self._end()

    def _end(self) -> None:
        try:
            self._note_segments()
        except KeyboardInterrupt:  # a second Ctrl-C
            self._note_segments()
            raise
        finally:
            if self._child is not None:
                self._child.end()
            self._shared.bench.guard.resume()

    def _note_segments(self) -> None:
        """Note the run's shared memory before the script is ended, because Ray then ends its workers at once."""
        if self._child is not None and not self._child.has_ended:
            self._shared.bench.guard.will_be_left(self._shared.segments.note(self._pids()))

    def metrics(self) -> dict[str, Scalar]:
        return {name: value for sampler in self._samplers for name, value in sampler.metrics().items()}

    def stages(self) -> tuple[Stage, ...]:
        return self._tasks.stages() if self._tasks is not None else ()

    def warnings(self) -> tuple[str, ...]:
        return tuple(text for sampler in self._samplers for text in sampler.warnings())

    def _pids(self) -> list[int]:
        found = self._child.processes() if self._child else frozenset()
        cluster = self._shared.cluster
        if cluster is not None and cluster.mark is not None:
            found |= find_processes(cluster.mark, cluster.processes, settle=False)
        return [process.pid for process in found]


def _task_sampler(shared: Shared, env: Mapping[str, str]) -> RayTaskSampler | None:
    """Sampler of the tasks and stages of a run with Ray. Its child is no process of the script or of its cluster."""
    cluster = shared.cluster
    if cluster is None:
        return None
    programs, is_new = shared.bench.task_programs, cluster.mark is not None
    return RayTaskSampler(
        cluster.python or sys.executable, env, session_dir=cluster.session_dir, programs=programs, is_new=is_new
    )


def _hidden(found: ResultFiles, own: Mapping[str, Scalar]) -> tuple[str, ...]:
    """Warn about metrics of the script that the bench's own measurements replace, because requirements rely on
    these."""
    names = sorted(set(found.metrics) & set(own))
    return (f"the bench's own {', '.join(names)} replaces the script's metric of that name",) if names else ()


def _verdict(
    plan: Plan, ended: Ended, found: ResultFiles, cluster: Cluster | None, directories: Directories
) -> tuple[Verdict, str, Cause | None]:
    if cluster is not None and not is_alive(cluster):
        return Verdict.ERROR, ended_under("the script", cluster), Cause.CLUSTER
    if ended.exit_code == 0 and not found.problem:
        return Verdict.PASSED, "", None
    if plan.skip_code is not None and ended.exit_code == plan.skip_code:
        said = tail(directories.log, 1, below=directories.large_below)
        return Verdict.SKIPPED, said[0] if said else "the script says that it cannot run here", None
    if ended.exit_code is None:
        return Verdict.TIMEOUT, f"stopped at timeout_s = {plan.timeout_s:g} s", None
    if shutil.disk_usage(directories.top).free < _FULL_DISK_BYTES:
        return Verdict.ERROR, f"the disk of {directories.top} is full", Cause.DISK
    if ended.exit_code < 0:
        return Verdict.CRASHED, f"the script was ended by {_signal_name(-ended.exit_code)}", None
    if ended.exit_code != 0:
        log = tail(directories.log, _LINES_OF_A_TRACEBACK, below=directories.large_below)
        if module := missing_module(log):
            return Verdict.ERROR, _without(module, plan.python), Cause.CONFIGURATION
        return Verdict.CRASHED, f"the script ended with exit code {ended.exit_code}", None
    return Verdict.CRASHED, found.problem, None


def _without(module: str, python: str) -> str:
    package = module.partition(".")[0]
    return (
        f"a library of the script needs {module}, which {python} cannot import; install it, or list it in the entry: "
        f"`requires: [{package}]` skips the entry without it"
    )


def _signal_name(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
