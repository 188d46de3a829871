"""One attempt at a run: folders, setups, datasets, cluster, executions, clean-up. It always returns a result."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from curator_bench.cluster.environment import is_of_a_worker, users_own_authentication
from curator_bench.cluster.model import Cluster, ClusterRequest
from curator_bench.cluster.shared_memory import Segments
from curator_bench.errors import BenchError, ClusterError, DatasetError, GpuError
from curator_bench.execution import data_setups, datasets
from curator_bench.execution.child import run_child
from curator_bench.execution.directories import (
    BY_US_ALONE,
    Directories,
    attempt_top,
    directories_of,
    prepare,
    remove_scratch,
    with_entry_dir,
)
from curator_bench.execution.environment import script_environment
from curator_bench.execution.installing import install_command
from curator_bench.execution.script import Execution, Shared, command_words, execute, mask_of
from curator_bench.execution.status import Status
from curator_bench.execution.workbench import Workbench
from curator_bench.files import safe_files
from curator_bench.files.folder_handles import HeldFolder
from curator_bench.files.json_files import log_tail
from curator_bench.measure.gpu import GpuInUse, busy_gpus, machine_may_have_gpus
from curator_bench.measure.programs import question
from curator_bench.provenance import host_files
from curator_bench.repeats import combine, combine_stages
from curator_bench.values import Cause, Plan, Repeat, RunResult, Stage, Verdict

_CHECK_PATIENCE_S = 60.0
_GPU_IN_USE = 0.01
GPUS_HANG_AFTER_S = 15.0
_CHECK_IMPORTS = """
import importlib.util, sys

def is_missing(name):
    try:
        return importlib.util.find_spec(name) is None
    except ImportError:  # of the package it is in
        return True

print("missing:", *filter(is_missing, sys.argv[1:]))
"""


class _Skipped(Exception):
    """The run needs a module that is not installed."""


class _FolderGone(BenchError):
    """The run's folder was removed or replaced, and its files are lost."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"the run's folder was removed or replaced while it ran, and its files are lost: {folder}")


class _FileReplaced(BenchError):
    """A folder is in the place of a file that only we write."""

    def __init__(self, file: Path) -> None:
        super().__init__(f"the script replaced a file of the run by a folder: {file}")


class Attempt:
    """One attempt. `run` returns its result; `interrupted` returns the result of a run that was stopped."""

    def __init__(self, plan: Plan, bench: Workbench) -> None:
        self._plan = plan
        self._bench = bench
        self._top = attempt_top(plan)
        self._started_at = _now()
        self._clock = time.monotonic()
        self._executions: list[Execution] = []
        self._repeats: list[Repeat] = []
        self._stages: list[tuple[Stage, ...]] = []
        """Stages of each repeat."""
        self._warnings: list[str] = []
        self._cluster: Cluster | None = None
        self._status: Status | None = None
        self._folder: HeldFolder | None = None
        self._prepared = False

    def run(self) -> RunResult:
        try:
            self._steps()
        except _Skipped as reason:
            return self._result(Verdict.SKIPPED, str(reason))
        except BenchError as error:
            return self._result(Verdict.ERROR, str(error), _cause(error))
        except OSError as error:
            return self._result(Verdict.ERROR, _explain(error, self._top), Cause.DISK)
        last = self._executions[-1]
        return self._result(last.verdict, last.error, last.cause)

    def interrupted(self) -> RunResult:
        return self._result(Verdict.INTERRUPTED, "stopped from outside")

    def _steps(self) -> None:
        directories = prepare(self._plan, self._top)
        self._prepared = True
        with HeldFolder(self._top) as self._folder:
            try:
                self._run_in(directories)
            except OSError:  # a lost folder is the real reason
                self._check_folder()
                raise
            self._check_folder()

    def _check_folder(self) -> None:
        if self._folder is not None and not self._folder.is_in_place:
            raise _FolderGone(self._top)
        for file in (Path(self._plan.entry_dir, name) for name in BY_US_ALONE):
            if safe_files.kind_of(file, below=Path(self._plan.session_dir)) == "folder":
                raise _FileReplaced(file)

    def _run_in(self, directories: Directories) -> None:
        plan = self._plan
        if plan.problems:
            raise BenchError("; ".join(plan.problems))
        host_files.ensure(plan, self._bench.provenance)
        self._status = Status(Path(plan.entry_dir), directories, plan.name, plan.mask, self._bench.schedule)
        self._status.now("preparing", attempt=plan.attempt)
        self._status.start()
        env = script_environment(self._own_env(), {}, self._bench.marker, self._bench.environ, python=plan.python)
        self._check_programs(env)
        self._check_imports(env)
        self._check_machine(env)
        self._check_gpus(env, directories)
        self._prepare_data(env)
        segments = Segments()
        try:
            with self._gpu_watch(env), self._cluster_of(directories, env) as cluster:
                self._execute_all(directories, Shared(cluster, self._bench, self._status, segments))
        finally:
            segments.remove()

    def _own_env(self) -> dict[str, str]:
        return {name: with_entry_dir(value, self._top) for name, value in self._plan.env.items()}

    def _check_programs(self, env: Mapping[str, str]) -> None:
        """Check `requires_programs` in the PATH of the script."""
        path = env["PATH"]
        if missing := [name for name in self._plan.requires_programs if shutil.which(name, path=path) is None]:
            raise _Skipped(f"needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not in PATH")

    def _check_imports(self, env: Mapping[str, str]) -> None:
        """Check `requires` with the script's own interpreter."""
        if not self._plan.requires:
            return
        words = question(self._plan.python, _CHECK_IMPORTS, *self._plan.requires)
        try:
            answer = subprocess.run(
                words, env=dict(env), capture_output=True, text=True, timeout=_CHECK_PATIENCE_S, check=True
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise BenchError(f"the interpreter {self._plan.python} cannot be checked for modules: {error}") from None
        if missing := answer.stdout.rpartition("missing:")[2].split():
            python = self._plan.python
            install = install_command(python, missing)
            raise _Skipped(f"needs {', '.join(missing)}, which {python} cannot import; install it with: {install}")

    def _check_machine(self, env: Mapping[str, str]) -> None:
        """Refuse a cluster with GPUs where there are none. Ray believes any number, and the script waits for them."""
        ray = self._plan.ray
        if ray is None or ray.address is not None or self._plan.cluster_provider:
            return
        if (ray.num_gpus or 0) > 0 and not machine_may_have_gpus(env):
            asked = f"{ray.num_gpus:g} GPU{'' if ray.num_gpus == 1 else 's'}"
            raise BenchError(
                f"asks for {asked} (num_gpus in `ray`), and this machine has none; run it elsewhere, or set "
                "num_gpus: 0 if its script needs none"
            )

    def _check_gpus(self, env: Mapping[str, str], directories: Directories) -> None:
        """Run `gpu_check`, the user's own check of the GPUs, with the script's interpreter."""
        if self._plan.gpu_check is None:
            return
        log = directories.log.with_name("gpu_check.log")
        words = [self._plan.python, self._plan.gpu_check]
        ended = run_child(
            words,
            env=env,
            log=log,
            cwd=self._plan.working_dir,
            timeout_s=self._plan.timeout_s,
            below=directories.large_below,
        )
        if ended.exit_code != 0:
            how = "its time was over" if ended.exit_code is None else f"exit code {ended.exit_code}"
            lines = "\n".join(f"  {line}" for line in log_tail(log, self._plan.mask, below=directories.large_below))
            raise GpuError(f"gpu_check {self._plan.gpu_check} failed ({how}). The end of {log}:\n{lines}")

    def _prepare_data(self, env: Mapping[str, str]) -> None:
        for setup in self._plan.data_setups:
            data_setups.ensure(setup, self._plan, env)
        for need in self._plan.datasets:
            datasets.ensure(need, env=env, session_dir=Path(self._plan.session_dir), mask=self._plan.mask)

    @contextmanager
    def _cluster_of(self, directories: Directories, env: Mapping[str, str]) -> Iterator[Cluster | None]:
        plan = self._plan
        if plan.ray is None:
            yield None
            return
        assert self._status
        self._status.now("starting Ray", directories.ray_log)
        request = ClusterRequest(
            settings=plan.ray,
            marker=self._bench.marker,
            env=env,
            log_path=directories.ray_log,
            copy_logs_to=directories.ray_cluster,
            entry_env=self._users_own_authentication() | self._own_env(),
            python=plan.python,
            working_dir=plan.working_dir,
            provider=plan.cluster_provider,
        )
        with self._bench.clusters.cluster(request) as cluster:
            self._cluster = cluster
            try:
                yield cluster
            finally:
                if not plan.ray.reuse:
                    self._bench.task_programs.end()

    def _users_own_authentication(self) -> dict[str, str]:
        env, ray = self._bench.environ, self._plan.ray
        if ray is None or ray.address is None or is_of_a_worker(env):
            return {}
        return users_own_authentication(env)

    @contextmanager
    def _gpu_watch(self, env: Mapping[str, str]) -> Iterator[None]:
        """Warn if a GPU is in use before the run, or after the run and its cluster have ended."""
        self._warnings += [f"before the run, {gpu}" for gpu in self._busy_gpus(env)]
        yield
        self._warnings += [f"after the run, {gpu}" for gpu in self._busy_gpus(env)]
        if not self._bench.gpus_answer:
            self._warnings.append("the GPU driver does not answer: GPUs are not measured in the rest of this session")

    def _busy_gpus(self, env: Mapping[str, str]) -> list[GpuInUse]:
        if not self._bench.gpus_answer:
            return []
        said = self._plan.gpu_mem_use_warning_threshold
        began = time.monotonic()
        found = busy_gpus(_GPU_IN_USE if said is None else said, env)
        self._bench.gpus_answer = time.monotonic() - began < GPUS_HANG_AFTER_S
        return found

    def _execute_all(self, directories: Directories, shared: Shared) -> None:
        for number in range(1, self._plan.warmup + 1):
            shared.status.now(f"warmup {number}", directories.log)
            if not self._execute(prepare(self._plan, self._top / f"warmup_{number}"), shared):
                return
        for number in range(1, self._plan.repeat + 1):
            own = directories if number == 1 else prepare(self._plan, self._top / f"repeat_{number}")
            shared.status.now(f"repeat {number}" if self._plan.profiling is None else "profiling", own.log)
            done = self._execute(own, shared, is_profiled=self._plan.profiling is not None)
            self._note_repeat(number)
            if not done:
                return

    def _execute(self, directories: Directories, shared: Shared, *, is_profiled: bool = False) -> bool:
        """Run one execution; true if it passed, so that the next one may follow."""
        execution = execute(self._plan, directories, shared, is_profiled=is_profiled)
        self._executions.append(execution)
        if self._plan.delete_scratch:
            self._warnings += remove_scratch(directories)
        self._check_folder()
        return execution.verdict is Verdict.PASSED

    def _note_repeat(self, number: int) -> None:
        last = self._executions[-1]
        self._stages.append(last.stages)
        self._repeats.append(Repeat(number, last.exit_code, last.seconds, last.metrics, _now()))

    def _result(self, verdict: Verdict, error: str, cause: Cause | None = None) -> RunResult:
        self._end(verdict)
        plan, cluster = self._plan, self._cluster
        last = self._executions[-1] if self._executions else None
        shown = last.directories if last else directories_of(plan, self._top)
        has_log = self._prepared and safe_files.is_file(shown.log, below=shown.large_below)
        is_good = verdict in (Verdict.PASSED, Verdict.SKIPPED)
        mask = mask_of(plan, cluster)
        warnings = [*self._warnings, *(text for execution in self._executions for text in execution.warnings)]
        return RunResult(
            name=plan.name,
            verdict=verdict,
            started_at=self._started_at,
            ended_at=_now(),
            duration_s=time.monotonic() - self._clock,
            error=mask.hide(error),
            cause=cause,
            exit_code=last.exit_code if last else None,
            command=tuple(mask.hide(word) for word in command_words(plan, shown)[0]),
            log_path=str(shown.shown_log) if has_log else "",
            log_tail=log_tail(shown.log, mask, below=shown.large_below) if has_log and not is_good else (),
            params=last.params if last else {},
            metrics=combine(self._repeats) if self._repeats else {},
            repeats=tuple(self._repeats),
            samples=last.samples if last and len(self._repeats) == 1 else {},
            stages=combine_stages(self._stages) if self._stages else (),
            profiles=last.profiles if last else (),
            attempt=plan.attempt,
            warnings=tuple(dict.fromkeys(mask.hide(text) for text in warnings)),
            host=socket.gethostname(),
            ray_version=cluster.ray_version if cluster else "",
            ray_num_cpus=cluster.resources.get("CPU") if cluster else None,
            ray_num_gpus=cluster.resources.get("GPU", 0.0) if cluster else None,
        )

    def _end(self, verdict: Verdict) -> None:
        """Write the final status. A full disk causes only a warning."""
        try:
            if self._status is not None:
                self._status.stop(verdict)
        except OSError as problem:
            self._warnings.append(f"the final status of the run could not be written: {_explain(problem, self._top)}")


def _cause(error: BenchError) -> Cause:
    kinds = {
        _FolderGone: Cause.DISK,
        _FileReplaced: Cause.DISK,
        ClusterError: Cause.CLUSTER,
        DatasetError: Cause.DATASET,
        GpuError: Cause.GPU,
    }
    return next((cause for kind, cause in kinds.items() if isinstance(error, kind)), Cause.CONFIGURATION)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _explain(error: OSError, top: Path) -> str:
    """Describe an OSError with its file. A failed write names none; then the run's folder is named."""
    return f"{error.strerror or error}: {error.filename or top}"
