"""Entry to Plan to RunResult: what the `run_result` fixture does."""

from __future__ import annotations

import itertools
import os
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from curator_bench.collection import BENCHMARKS, REPORT, Benchmarks
from curator_bench.execution.run import Interrupted, run_entry
from curator_bench.execution.workbench import Workbench
from curator_bench.fleet.messages import Where
from curator_bench.matrix import command_of, definition_of
from curator_bench.runner.attempts import attempts_of
from curator_bench.runner.claiming import NOT_HERE, claim, leave_to_others, release
from curator_bench.runner.policy import Next
from curator_bench.runner.reporting import note_run
from curator_bench.runner.run_keys import DEFINITION, MACHINE, UID
from curator_bench.runner.session import provenance_of
from curator_bench.values import Entry, Plan, RunResult

ARRIVED = pytest.StashKey[RunResult]()
"""What came of the item's run in a fleet."""
_WORKBENCH = pytest.StashKey[Workbench]()


def run_here(item: pytest.Item, entry: Entry) -> RunResult:
    """Run an entry here, as often as policy says; each attempt is a run of its own.

    No-op for an entry that has run in a fleet: its last result is there.
    """
    if ARRIVED in item.stash:
        return item.stash[ARRIVED]
    if NOT_HERE in item.stash or claim(item, entry):
        leave_to_others(item)
    item.addfinalizer(lambda: release(item, entry))
    plan, attempts = plan_of(entry, item.config.stash[BENCHMARKS]), attempts_of(item, entry)
    for number in itertools.count(1):
        result = _attempt(item, entry, replace(plan, attempt=number, uid=uuid.uuid4().hex))
        if attempts.take(result, is_hopeless=bool(plan.problems)).next is Next.JUDGE:
            return result
    raise AssertionError("unreachable")


def _attempt(item: pytest.Item, entry: Entry, plan: Plan) -> RunResult:
    """One attempt, of which hooks are told before and after."""
    plan = with_hooks(item, plan)
    note_start(item, entry, plan)
    try:
        result = run_entry(plan, workbench(item.config))
    except Interrupted as stop:
        note_interrupted(item, entry, stop.result)
        raise KeyboardInterrupt from None
    item.ihook.pytest_bench_run_finished(item=item, result=result)
    return result


def with_hooks(item: pytest.Item, plan: Plan) -> Plan:
    """The plan as whoever listens wants it."""
    found: Plan = item.ihook.pytest_bench_plan(item=item, plan=plan) or plan
    return found


def note_start(item: pytest.Item, entry: Entry, plan: Plan, where: Where | None = None) -> None:
    """A run starts now: here, or at `where` in a fleet."""
    item.ihook.pytest_bench_run_started(item=item, plan=plan)
    item.stash[UID], item.stash[DEFINITION] = plan.uid, definition_of(entry)
    if where is not None:
        item.stash[MACHINE] = where.machine_id
    if item.config.stash[BENCHMARKS].settings.benchmark:
        from curator_bench.runner import entry_record

        entry_record.start(item, entry, plan, where)


def note_interrupted(item: pytest.Item, entry: Entry, result: RunResult) -> None:
    """A run that was stopped from outside: nobody will judge it."""
    run = note_run(item, entry, result, result.verdict, ())
    if (report := item.config.pluginmanager.get_plugin(REPORT)) is not None:
        report.note_interrupted(run)
    item.ihook.pytest_bench_run_finished(item=item, result=result)


def workbench(config: pytest.Config) -> Workbench:
    """What the runs of this process share; made by the first of them."""
    if _WORKBENCH not in config.stash:
        controller = os.getppid() if hasattr(config, "workerinput") else None
        config.stash[_WORKBENCH] = Workbench(
            config.stash[BENCHMARKS].session_dir, controller, provenance=provenance_of(config)
        )
        config.add_cleanup(config.stash[_WORKBENCH].close)
    return config.stash[_WORKBENCH]


def plan_of(entry: Entry, benchmarks: Benchmarks) -> Plan:
    """All there is to know of a run of this entry in this session."""
    settings = benchmarks.settings
    command = command_of(entry, os.environ)
    artifacts = entry.file.artifacts_dir
    return Plan(
        name=entry.id,
        session=settings.session,
        invocation=settings.invocation,
        session_dir=str(benchmarks.session_dir),
        entry_dir=str(benchmarks.session_dir.joinpath(*entry.folder)),
        artifacts_dir=str(Path(artifacts, settings.session, *entry.folder)) if artifacts else None,
        python=command.python,
        script=command.script,
        args=command.args,
        working_dir=entry.file.directory,
        env=command.env,
        timeout_s=entry.timeout_s,
        repeat=entry.repeat,
        warmup=entry.warmup,
        ray=entry.ray,
        delete_scratch=entry.delete_scratch,
        requires=entry.requires,
        datasets=command.datasets,
        data_setups=command.data_setups,
        subjects=tuple(subject.package for subject in entry.file.subjects),
        gpu_stats_interval_s=entry.file.gpu_stats_interval_s,
        gpu_mem_use_warning_threshold=entry.gpu_mem_use_warning_threshold,
        gpu_check=command.gpu_check,
        problems=command.problems,
        mask=benchmarks.matrix.mask.also(command.secrets),
    )
