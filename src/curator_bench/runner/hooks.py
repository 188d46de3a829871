"""Registers the hooks of a session of benchmarks: recording, display, sinks, the fleet, resuming, Ctrl-C."""

from __future__ import annotations

from pathlib import Path

import pytest

from curator_bench.collection import benchmarks
from curator_bench.options.settings import Settings
from curator_bench.runner import controller


def begin(config: pytest.Config) -> None:
    """Set up the session, in the controller and in each worker. Raises BenchError for bad options."""
    if benchmarks.needs_session(config) and not hasattr(config, "workerinput"):
        _check_profilers_of(config.stash[benchmarks.BENCHMARKS].settings)
    if benchmarks.needs_session(config):
        from curator_bench.runner.interrupting import InterruptHooks
        from curator_bench.runner.joining import join_session

        config.pluginmanager.register(InterruptHooks(), "curator_bench_interrupts")
        join_session(config)
    if hasattr(config, "workerinput") and benchmarks.has_matrix(config):
        from curator_bench.runner.claiming import TurnHooks

        config.pluginmanager.register(TurnHooks(), "curator_bench_turns")
    if benchmarks.is_recording(config):
        from curator_bench.runner.python_run import PythonRunHooks
        from curator_bench.runner.recording import RecordingHooks
        from curator_bench.runner.witnessing import WitnessHooks

        config.pluginmanager.register(RecordingHooks(config), "curator_bench_recording")
        config.pluginmanager.register(PythonRunHooks(), "curator_bench_python_runs")
        config.pluginmanager.register(WitnessHooks(), "curator_bench_witness")
    if benchmarks.has_fleet(config):
        from curator_bench.runner.fleet_session import FleetHooks

        config.pluginmanager.register(FleetHooks(), "curator_bench_fleet")
    if benchmarks.may_report(config):
        from curator_bench.runner.sink_hooks import sink_hooks

        if (hooks := sink_hooks(config)) is not None:
            config.pluginmanager.register(hooks, "curator_bench_sinks")
    controller.announce(config)
    if benchmarks.resumes(config):
        from curator_bench.runner.resume import ResumeHooks

        config.pluginmanager.register(ResumeHooks(config), "curator_bench_resume")


def check_profilers(names: tuple[str, ...], folder: Path, *, is_elsewhere: bool = False) -> None:
    """Raise BenchError for a profiler that is unknown or, unless it runs elsewhere, not installed here."""
    if names:
        from curator_bench.execution.profilers import registry

        registry.check_profilers(names, folder, is_elsewhere=is_elsewhere)


def _check_profilers_of(settings: Settings) -> None:
    """Check the profilers of the options. A fleet's machines have their own."""
    is_elsewhere = settings.fleet is not None and settings.fleet.address != "local"
    check_profilers(settings.profilers, settings.working_dir, is_elsewhere=is_elsewhere)
