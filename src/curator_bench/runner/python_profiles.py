"""Profiles of Python benchmarks: the test runs once more, in a pytest of its own that records nothing."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from curator_bench import interrupts
from curator_bench.collection.benchmarks import BENCHMARKS
from curator_bench.collection.multiplied import own_nodeid
from curator_bench.execution.profiling import PROBLEM, remove_extra_run
from curator_bench.execution.run import run_entry
from curator_bench.runner.policy import Allowance, GateState, Happened, Next, next_step
from curator_bench.runner.running import profilings, when_profiled, workbench
from curator_bench.runner.session import item_dir
from curator_bench.values import Plan, Profile, Profiling, Verdict

if TYPE_CHECKING:
    from curator_bench.runner.python_run import PythonRun

_PROGRAM = Path(__file__).with_name("one_test_program.py")
_CALLS_THE_TEST = ":pytest_pyfunc_call"
"""End of the name of pytest's frame below a test."""
_TIMEOUT_S = 3600.0


def profiles_of(item: pytest.Item, run: PythonRun) -> tuple[Profile, ...]:
    """Profile a test that has been recorded, if policy says so. Problems are warnings of pytest."""
    settings = item.config.stash[BENCHMARKS].settings
    can_fail = settings.fail_on_regression
    state = GateState.FAILED if any(check.is_unmet for check in run.checks) else GateState.PASSED
    happened = replace(Happened().after(run.verdict, 0.0), gates=state)
    step = next_step(happened, Allowance(profile=when_profiled(settings, can_fail)))
    if step.next is not Next.PROFILE:
        return ()
    return tuple(profile for one in profilings(settings) for profile in _profiles_by(item, one))


def _profiles_by(item: pytest.Item, profiling: Profiling) -> tuple[Profile, ...]:
    plan = _plan(item, profiling)
    with interrupts.open_to_ctrl_c():
        result = run_entry(plan, workbench(item.config))
    problems = [text for text in result.warnings if text.startswith(PROBLEM)]
    if result.verdict is Verdict.PASSED:
        remove_extra_run(plan)
    else:
        what = f"its run did not pass ({result.verdict}): {result.error}; {result.log_path}"
        problems.append(f"{PROBLEM}{profiling.profiler}: {what}")
    for problem in problems:
        item.warn(pytest.PytestWarning(problem))
    return result.profiles if result.verdict is Verdict.PASSED else ()


def _plan(item: pytest.Item, profiling: Profiling) -> Plan:
    benchmarks = item.config.stash[BENCHMARKS]
    return Plan(
        name=own_nodeid(item).partition("::")[2],
        session=benchmarks.settings.session,
        session_dir=str(benchmarks.session_dir),
        entry_dir=str(item_dir(item)),
        python=sys.executable,
        script=str(_PROGRAM),
        args=tuple(_arguments(item)),
        working_dir=str(item.config.invocation_params.dir),
        uid=uuid.uuid4().hex,
        invocation=benchmarks.settings.invocation,
        env=_environment(),
        timeout_s=_TIMEOUT_S,
        mask=benchmarks.mask,
        profiling=replace(profiling, after=_CALLS_THE_TEST),
    )


def _arguments(item: pytest.Item) -> Iterator[str]:
    """Yield the arguments of pytest: the project's ini file and the test. Other options are those of the ini file."""
    config = item.config
    yield from ("--rootdir", str(config.rootpath), "-p", "no:cacheprovider", "--bench-profile", "none")
    if config.inipath is not None:
        yield from ("-c", str(config.inipath))
    if config.pluginmanager.hasplugin("xdist"):
        yield "-n0"
    yield f"{item.path}::{own_nodeid(item).partition('::')[2]}"


def _environment() -> dict[str, str]:
    """Return what lets the test import what it could import here: `python -m pytest` adds the working folder."""
    if not {"", os.getcwd()}.intersection(sys.path):
        return {}
    return {"PYTHONPATH": os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH", "")]))}
