"""One attempt at a run: folders, setups, datasets, cluster, executions, clean-up; whatever happens, an answer."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from curator_bench.cluster.model import Cluster, ClusterRequest
from curator_bench.errors import BenchError
from curator_bench.execution import data_setups, datasets, session_environment
from curator_bench.execution.directories import Directories, attempt_top, prepare, remove_scratch
from curator_bench.execution.environment import script_environment
from curator_bench.execution.files import append_json_line, tail
from curator_bench.execution.repeats import combine
from curator_bench.execution.script import Execution, command_words, execute
from curator_bench.execution.status import Status
from curator_bench.execution.workbench import Workbench
from curator_bench.measure.gpu import busy_gpus
from curator_bench.values import Plan, Repeat, RunResult, Verdict

_LOG_LINES = 30
_CHECK_IMPORTS = "import importlib.util as u, sys; print(*[n for n in sys.argv[1:] if u.find_spec(n) is None])"
_CHECK_PATIENCE_S = 60.0


class _Skipped(Exception):
    """The run needs what is not here."""


class Attempt:
    """One attempt; `run` answers once, `interrupted` answers when it was stopped in between."""

    def __init__(self, plan: Plan, bench: Workbench) -> None:
        self._plan = plan
        self._bench = bench
        self._top = attempt_top(plan)
        self._started_at = _now()
        self._clock = time.monotonic()
        self._executions: list[Execution] = []
        self._repeats: list[Repeat] = []
        self._warnings: list[str] = []
        self._cluster: Cluster | None = None
        self._status: Status | None = None

    def run(self) -> RunResult:
        try:
            self._steps()
        except _Skipped as reason:
            return self._result(Verdict.SKIPPED, str(reason))
        except BenchError as error:
            return self._result(Verdict.ERROR, str(error))
        except OSError as error:
            return self._result(Verdict.ERROR, _explain(error))
        last = self._executions[-1]
        return self._result(last.verdict, last.error)

    def interrupted(self) -> RunResult:
        return self._result(Verdict.INTERRUPTED, "stopped from outside")

    def _steps(self) -> None:
        plan = self._plan
        if plan.problems:
            raise BenchError("; ".join(plan.problems))
        session_environment.ensure(plan)
        directories = prepare(plan, self._top)
        self._status = Status(self._top, plan.name, plan.mask, self._bench.schedule)
        self._status.now("preparing", attempt=plan.attempt)
        self._status.start()
        env = script_environment(plan.env, {}, self._bench.marker)
        self._check_imports(env)
        self._prepare_data(env)
        with self._cluster_of(directories, env) as cluster, self._gpu_watch(env):
            self._execute_all(directories, cluster, self._status)

    def _check_imports(self, env: Mapping[str, str]) -> None:
        """`requires`: asked of the script's own interpreter."""
        if not self._plan.requires:
            return
        words = [self._plan.python, "-c", _CHECK_IMPORTS, *self._plan.requires]
        try:
            answer = subprocess.run(
                words, env=dict(env), capture_output=True, text=True, timeout=_CHECK_PATIENCE_S, check=True
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise BenchError(
                f"the interpreter {self._plan.python} cannot be asked what it can import: {error}"
            ) from None
        if missing := answer.stdout.split():
            raise _Skipped(f"needs {', '.join(missing)}, which {self._plan.python} cannot import")

    def _prepare_data(self, env: Mapping[str, str]) -> None:
        for setup in self._plan.data_setups:
            data_setups.ensure(setup, self._plan, env)
        for need in self._plan.datasets:
            log_dir = Path(self._plan.session_dir, "data_setup", f"dataset_{need.name}_{need.format}")
            datasets.ensure(need, env=env, log_dir=log_dir)

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
            entry_env=plan.env,
            python=plan.python,
            working_dir=plan.working_dir,
        )
        with self._bench.clusters.cluster(request) as cluster:
            self._cluster = cluster
            yield cluster

    @contextmanager
    def _gpu_watch(self, env: Mapping[str, str]) -> Iterator[None]:
        """Warns when somebody else uses a GPU before the run, or the run leaves one in use."""
        threshold = self._plan.gpu_mem_use_warning_threshold or 0.0
        self._warnings += [f"before the run, {gpu}" for gpu in busy_gpus(threshold, env)]
        yield
        self._warnings += [f"after the run, {gpu}" for gpu in busy_gpus(threshold, env)]

    def _execute_all(self, directories: Directories, cluster: Cluster | None, status: Status) -> None:
        for number in range(1, self._plan.warmup + 1):
            status.now(f"warmup {number}", directories.log)
            if not self._execute(prepare(self._plan, self._top / f"warmup_{number}"), cluster, status):
                return
        for number in range(1, self._plan.repeat + 1):
            own = directories if number == 1 else prepare(self._plan, self._top / f"repeat_{number}")
            status.now(f"repeat {number}", own.log)
            done = self._execute(own, cluster, status)
            self._note_repeat(number)
            if not done:
                return

    def _execute(self, directories: Directories, cluster: Cluster | None, status: Status) -> bool:
        """Whether it went well enough for the next one."""
        execution = execute(self._plan, directories, cluster, self._bench, status)
        self._executions.append(execution)
        if self._plan.delete_scratch:
            remove_scratch(directories)
        return execution.verdict is Verdict.PASSED

    def _note_repeat(self, number: int) -> None:
        last = self._executions[-1]
        self._repeats.append(Repeat(number, last.exit_code, last.seconds, last.metrics))
        self._write_line(number, last)

    def _write_line(self, number: int, execution: Execution) -> None:
        line: dict[str, Any] = {
            "name": self._plan.name,
            "session": self._plan.session,
            "attempt": self._plan.attempt,
            "repeat": number,
            "ended_at": _now(),
            "verdict": execution.verdict,
            "error": self._plan.mask.hide(execution.error),
            "exit_code": execution.exit_code,
            "exec_time_s": execution.seconds,
            "params": execution.params,
            "metrics": execution.metrics,
        }
        append_json_line(Path(self._plan.entry_dir) / "results.jsonl", line)

    def _result(self, verdict: Verdict, error: str) -> RunResult:
        plan, cluster = self._plan, self._cluster
        last = self._executions[-1] if self._executions else None
        shown = last.directories if last else Directories(self._top)
        mask = plan.mask.also(frozenset([cluster.token])) if cluster and cluster.token else plan.mask
        warnings = [*self._warnings, *(text for execution in self._executions for text in execution.warnings)]
        result = RunResult(
            name=plan.name,
            verdict=verdict,
            started_at=self._started_at,
            ended_at=_now(),
            duration_s=time.monotonic() - self._clock,
            error=mask.hide(error),
            exit_code=last.exit_code if last else None,
            command=tuple(mask.hide(word) for word in command_words(plan, shown)[0]),
            log_path=str(shown.log) if shown.log.exists() else "",
            log_tail=() if verdict in (Verdict.PASSED, Verdict.SKIPPED) else tail(shown.log, _LOG_LINES),
            params=last.params if last else {},
            metrics=combine(self._repeats) if self._repeats else {},
            repeats=tuple(self._repeats),
            attempt=plan.attempt,
            warnings=tuple(dict.fromkeys(mask.hide(text) for text in warnings)),
            host=socket.gethostname(),
        )
        if cluster is not None:
            result = replace(
                result,
                ray_version=cluster.ray_version,
                ray_num_cpus=cluster.resources.get("CPU"),
                ray_num_gpus=cluster.resources.get("GPU", 0.0),
            )
        self._end_status(verdict)
        return result

    def _end_status(self, verdict: Verdict) -> None:
        if self._status is None:
            return
        try:
            self._status.stop(verdict)
        except OSError as error:
            self._warnings.append(f"status.json could not be written: {error}")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _explain(error: OSError) -> str:
    """An operating system's error in words: which file, and what about it."""
    return f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
