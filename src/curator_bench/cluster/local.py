"""A new cluster on this machine for each request. Nothing of it is left afterwards."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curator_bench import interrupts
from curator_bench.cluster.environment import CLUSTER_VARIABLE, authentication, head_environment, without_ray
from curator_bench.cluster.interpreters import interpreter_with_ray
from curator_bench.cluster.logs import LogKeeper, last_lines, newest_session
from curator_bench.cluster.model import Cluster, ClusterRequest
from curator_bench.cluster.options import missing_resources, requested_resources, start_options
from curator_bench.cluster.shared_memory import Segments
from curator_bench.cluster.temp_dirs import make_temp_dir, rays_folder, remove_leftovers, remove_temp_dir
from curator_bench.errors import ClusterError
from curator_bench.measure.processes import Mark, ProcessId, identify
from curator_bench.measure.programs import Command, Program, ProgramFailed


@dataclass(frozen=True, slots=True)
class _Running:
    """One attempt to start a cluster, from its preparation to its removal."""

    request: ClusterRequest
    python: str
    mark: Mark
    token: str
    temp_dir: Path
    segments: Segments
    logs: LogKeeper


class LocalCluster:
    """Starts and stops clusters on this machine."""

    def __init__(self) -> None:
        self._running: dict[Mark, tuple[_Running, Program]] = {}
        self._looked_for_leftovers = False

    def start(self, request: ClusterRequest) -> Cluster:
        self._remove_leftovers()
        python = interpreter_with_ray(request.python, without_ray(request.env))
        failures: list[str] = []
        for _ in range(1 + max(0, request.settings.start_retries)):
            try:
                return self._attempt(request, python)
            except ProgramFailed as failure:
                failures.append(str(failure))
            except OSError as error:
                raise ClusterError(f"the Ray cluster did not start: {error}") from error
        raise ClusterError(_why_it_failed(failures, request))

    def stop(self, cluster: Cluster, copy_logs_to: Path | None = None) -> None:
        """Stop the cluster and keep its logs, by default where the request says."""
        if cluster.mark in self._running:
            self._finish(cluster.mark, copy_logs_to)

    def close(self) -> None:
        with ExitStack() as stack:
            for mark in self._running:
                stack.callback(self._finish, mark)

    def _finish(self, mark: Mark, copy_logs_to: Path | None = None) -> None:
        with interrupts.held():  # else Ctrl-C could come between its end and our note of it
            running, head = self._running[mark]
            left = _end(running, head, copy_logs_to)
            del self._running[mark]
        if left:
            raise ClusterError(_what_is_left(left))

    def _attempt(self, request: ClusterRequest, python: str) -> Cluster:
        running = _prepare(request, python)
        head = None
        try:
            head = Program(_command(running))
            facts = head.answer(request.start_timeout_s)
            cluster = _cluster(running, head, facts)
        except ProgramFailed as failure:
            reason = _with_log(str(failure), running)
            _end(running, head)
            raise ProgramFailed(reason) from None
        except BaseException:
            _end(running, head)
            raise
        self._running[running.mark] = (running, head)
        return cluster

    def _remove_leftovers(self) -> None:
        if not self._looked_for_leftovers:
            self._looked_for_leftovers = True
            remove_leftovers()


def _prepare(request: ClusterRequest, python: str) -> _Running:
    mark = Mark(secrets.token_hex(16), CLUSTER_VARIABLE)
    temp_dir, logs = make_temp_dir(request.marker, mark), LogKeeper(request.copy_logs_to)
    return _Running(request, python, mark, secrets.token_hex(32), temp_dir, Segments(), logs)


def _command(running: _Running) -> Command:
    request = running.request
    return Command(
        python=running.python,
        program=Path(__file__).with_name("head_program.py"),
        arguments=tuple(start_options(request.settings, rays_folder(running.temp_dir), request.spill_dir)),
        env=head_environment(request.env, request.entry_env, running.token, (Mark(request.marker), running.mark)),
        log_path=request.log_path,
        working_dir=request.working_dir,
        own_mark=running.mark.value,
    )


def _cluster(running: _Running, head: Program, facts: dict[str, Any]) -> Cluster:
    missing = missing_resources(requested_resources(running.request.settings), facts["resources"])
    processes = [*head.roots, *filter(None, map(identify, facts["pids"]))]
    if missing or len(processes) != 1 + len(facts["pids"]):
        raise ProgramFailed("; ".join(missing) or "it ended as soon as it was ready")
    return Cluster(
        address=facts["address"],
        env={"RAY_ADDRESS": facts["address"], **authentication(running.token)},
        resources=facts["resources"],
        mark=running.mark,
        processes=tuple(processes),
        temp_dir=running.temp_dir,
        session_dir=Path(facts["session_dir"]),
        startup_log=running.request.log_path,
        python=running.python,
        node_id=facts["node_id"],
        ray_version=facts["ray_version"],
        dashboard_url=facts["dashboard_url"],
    )


def _end(running: _Running, head: Program | None, copy_logs_to: Path | None = None) -> frozenset[ProcessId]:
    """Kill the cluster. No log is lost: Ray writes logs at once, and they are moved after all writers have ended."""
    with interrupts.held():
        return _end_held(running, head, copy_logs_to)


def _end_held(running: _Running, head: Program | None, copy_logs_to: Path | None) -> frozenset[ProcessId]:
    left = running.segments.end(running.mark, head.roots if head else (), grace_s=0)
    if head and left.isdisjoint(head.roots):
        head.end()
    logs = LogKeeper(copy_logs_to) if copy_logs_to else running.logs
    logs.keep(_newest_session(running), below=running.temp_dir.parent)
    logs.close()
    running.logs.close()
    remove_temp_dir(running.temp_dir)
    return left


def _newest_session(running: _Running) -> Path | None:
    return newest_session(rays_folder(running.temp_dir), below=running.temp_dir.parent)


def _what_is_left(left: frozenset[ProcessId]) -> str:
    pids = ", ".join(str(process.pid) for process in sorted(left))
    return f"processes of the Ray cluster that could not be ended, not even by SIGKILL: {pids}"


def _with_log(reason: str, running: _Running) -> str:
    lines = last_lines(running.request.log_path, _newest_session(running))
    return "\n".join([reason, *(f"    {line}" for line in lines)])


def _why_it_failed(failures: list[str], request: ClusterRequest) -> str:
    attempts = f"{len(failures)} times" if len(failures) > 1 else "once"
    kept = f"; Ray's own logs: {request.copy_logs_to}" if request.copy_logs_to else ""
    return f"the Ray cluster did not start, tried {attempts}: {failures[-1]}\n(all of it: {request.log_path}{kept})"
