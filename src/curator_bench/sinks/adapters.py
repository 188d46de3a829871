"""Adapters for sinks written for other runners. The methods of a sink tell which of three interfaces it has."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict

from curator_bench.errors import BenchError
from curator_bench.sinks.methods import wrong_with
from curator_bench.sinks.sink import Context, Sink, SinkConfig
from curator_bench.values import Check, Run, RunRecord, Scalar, Session, Summary, Verdict


class OpenConfig(SinkConfig):
    """The settings of another runner's sink. Any key is accepted, because only the sink knows its own."""

    model_config = ConfigDict(extra="allow")


def adapted(found: Any, name: str) -> type[Sink[Any]]:
    """Return a Sink class for `found`: a Sink class itself, or a class or object of another runner's interface.

    Those interfaces know one result per entry, so an adapter reports the last run only.
    """
    if isinstance(found, type) and issubclass(found, Sink):
        if not (isinstance(found.config_model, type) and issubclass(found.config_model, SinkConfig)):
            raise BenchError(f"the sink {name!r} has {found.config_model!r} as config_model, expected a SinkConfig")
        if wrong := wrong_with(found):
            raise BenchError(f"the sink {name!r} {wrong}")
        return found
    if hasattr(found, "register_benchmark_entry_finished"):
        return type("RegisteringSink", (_RegisteringSink,), {"theirs": found})
    if hasattr(found, "process_result"):
        return type("ProcessingSink", (_ProcessingSink,), {"theirs": found})
    if hasattr(found, "log_metrics"):
        return type("LoggingSink", (_LoggingSink,), {"theirs": found})
    raise BenchError(f"the sink {name!r} is {found!r}, expected a subclass of curator_bench.sinks.Sink")


class _Adapter(Sink[OpenConfig]):
    """Base class of the adapters. The other runner's sink is made when the session starts, on the sink's thread."""

    config_model = OpenConfig
    theirs: ClassVar[Any]

    def __init__(self, config: OpenConfig, context: Context) -> None:
        super().__init__(config, context)
        self._object: Any = None

    def _make(self) -> Any:
        if self._object is None:
            settings = {"name": self.context.name, "enabled": True, **(self.config.model_extra or {})}
            is_class = isinstance(self.theirs, type)
            self._object = _call_with(self.theirs, settings) if is_class else self.theirs
        return self._object

    def _tell(self, method: str, *given: Any) -> None:
        """Call a method of that sink, if it has one, with as many arguments as it takes."""
        if (found := getattr(self._object, method, None)) is not None:
            _call_with(found, *given)


@dataclass(frozen=True, slots=True)
class _TheirEntry:
    """An entry, as far as NeMo Curator's sinks ask for it."""

    name: str
    sink_data: Mapping[str, Any]
    requirements: Mapping[str, Mapping[str, Any]]

    def get_sink_data(self, sink_name: str) -> Mapping[str, Any]:
        """Return the entry's settings for this sink, by whatever name it calls itself."""
        del sink_name
        return self.sink_data


@dataclass(frozen=True, slots=True)
class _TheirSession:
    """A session, as far as NeMo Curator's sinks ask for it."""

    results_path: Path
    entries: list[_TheirEntry]
    viewer_url: str | None
    run_reason: str | None


class _RegisteringSink(_Adapter):
    """Adapter for NeMo Curator's sinks.

    `__init__(sink_config)`; `initialize(session_name, session, env_dict)`; for each entry
    `register_benchmark_entry_starting` and `…_finished(result_dict, benchmark_entry)`; `finalize()`.
    """

    def start_session(self, session: Session) -> None:
        entries = [_TheirEntry(name, {}, {}) for name in session.entries]
        folder = Path(session.directory).parent
        theirs = _TheirSession(folder, entries, session.viewer_url or None, session.reason or None)
        self._make().initialize(session_name=session.name, session=theirs, env_dict=dict(session.environment))

    def run_started(self, run: Run) -> None:
        entry = _TheirEntry(run.name, run.sink_data, {})
        result = {"name": run.name, "run_id": run.uid or run.name, "success": False}
        self._make().register_benchmark_entry_starting(result_dict=result, benchmark_entry=entry)

    def run_finished(self, result: RunRecord) -> None:
        if result.is_last:
            required: dict[str, dict[str, Any]] = {}
            for check in result.requirements:
                required.setdefault(check.metric, {})[check.bound] = check.limit
            entry = _TheirEntry(result.name, result.sink_data, required)
            theirs = _result_of_curator(result)
            self._make().register_benchmark_entry_finished(result_dict=theirs, benchmark_entry=entry)

    def end_session(self, summary: Summary) -> None:
        self._tell("finalize")


class _ProcessingSink(_Adapter):
    """Adapter for `__init__(config)`, `initialize(session_name, env_data)`, `process_result(result)`, `finalize()`."""

    def start_session(self, session: Session) -> None:
        self._make()
        self._tell("initialize", session.name, dict(session.environment))

    def run_finished(self, result: RunRecord) -> None:
        if result.is_last:
            self._tell("process_result", _result_of_old(result))

    def end_session(self, summary: Summary) -> None:
        self._tell("finalize")


class _LoggingSink(_Adapter):
    """Adapter for sinks with `log_metrics`.

    `start_session`; then `start_run, log_params, log_metrics, log_artifact, end_run` for each run; then `end_session`.
    """

    def start_session(self, session: Session) -> None:
        self._make()
        self._tell("start_session", session.name)

    def run_finished(self, result: RunRecord) -> None:
        if not result.is_last:
            return
        self._tell("start_run", result.name)
        self._tell("log_params", dict(result.params))
        self._tell("log_metrics", dict(result.metrics))
        if result.log_path:
            self._tell("log_artifact", result.log_path)
        self._tell("end_run", result.passed)

    def end_session(self, summary: Summary) -> None:
        self._tell("end_session", set(summary.counts) <= {Verdict.PASSED, Verdict.SKIPPED})


def _call_with(call: Any, *given: Any) -> Any:
    """Call with as many of the arguments as are accepted. Parameters beyond them without a default get None."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return call(*given)
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return call(*given)
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    missing = [None for one in positional[len(given) :] if one.default is one.empty]
    return call(*given[: len(positional)], *missing)


def _word(check: Check) -> str:
    return f": {check.says}" if check.says else ""


def _result_of_curator(result: RunRecord) -> dict[str, Any]:
    found = {
        "name": result.name,
        "run_id": result.uid,
        "success": result.passed,
        "cmd": " ".join(result.command),
        "exec_started_at": datetime.fromisoformat(result.started_at).timestamp() if result.started_at else None,
        "exec_time_s": result.metrics.get("exec_time_s", result.duration_s),
        "exit_code": result.exit_code,
        "timed_out": result.verdict is Verdict.TIMEOUT,
        "logs_dir": str(Path(result.log_path).parent) if result.log_path else "",
        "ray_cluster_data": _resources(result),
        "gpu_stats": {},
        "warnings": list(result.warnings),
        "metrics": dict(result.metrics),
        "params": dict(result.params),
        "requirements_not_met": _not_met(result),
    }
    return {**found, "error": result.error} if result.error else found


def _resources(result: RunRecord) -> dict[str, float]:
    return {name: size for name, size in (("CPU", result.ray_num_cpus), ("GPU", result.ray_num_gpus)) if size}


def _not_met(result: RunRecord) -> dict[str, str]:
    return {check.metric: f"{check.bound} {check.limit}, found {check.actual}{_word(check)}" for check in result.unmet}


def _result_of_old(result: RunRecord) -> dict[str, Any]:
    exec_time_s: Scalar = result.metrics.get("exec_time_s", result.duration_s)
    return {
        "name": result.name,
        "success": result.passed,
        "exec_time_s": exec_time_s,
        "timeout": result.verdict is Verdict.TIMEOUT,
        "script_params": dict(result.params),
        "script_metrics": dict(result.metrics),
        "tasks": [],  # the pickle is opened only by a short-lived child process, which turns it into metrics
        "command": " ".join(result.command),
        "returncode": result.exit_code,
        "stdouterr_file": result.log_path,
        "requirements_not_met": _not_met(result),
    }
