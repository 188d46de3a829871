"""Entries as pytest items: the callbacks of a conductor, and the run of an entry in this process."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from curator_bench.collection.benchmarks import BENCHMARKS, REPORT, Benchmarks
from curator_bench.collection.items import has_gates
from curator_bench.execution.profiling import remove_extra_run
from curator_bench.execution.workbench import Workbench
from curator_bench.matrix import command_of, definition_of
from curator_bench.report.session_runs import RESULTS
from curator_bench.report.session_runs import read_run as read_results
from curator_bench.runner.claiming import NOT_HERE, claim, leave_to_others, release
from curator_bench.runner.conductor import Conductor, Job
from curator_bench.runner.disturbing import disturbed_by
from curator_bench.runner.interrupting import hold_until_the_end
from curator_bench.runner.judging import Outcome, forget_judge, judge_of
from curator_bench.runner.local_runner import LocalRunner
from curator_bench.runner.policy import Allowance, Decision, GateState, Next, Profile, Spent
from curator_bench.runner.run_keys import BACKGROUND, DEFINITION, MACHINE, PROFILES, UID
from curator_bench.runner.run_records import forget_run, note_interrupted, note_measured, note_run, note_unconfirmed
from curator_bench.runner.session import provenance_of
from curator_bench.runner.xenna import with_xennas_needs
from curator_bench.values import Entry, Plan, Profiling, RunResult, Verdict, Where

if TYPE_CHECKING:
    from curator_bench.options.settings import Settings
    from curator_bench.store.records import Background

RESULT = pytest.StashKey[RunResult]()
"""The last run of an item that it has not asked for, or that a fleet has run."""
FROM_FLEET: pytest.StashKey[Callable[[], RunResult]] = pytest.StashKey()
"""Returns the last run of an item in a fleet. Each further call, by a plugin that reruns its test, is for another."""
_WORKBENCH = pytest.StashKey[Workbench]()
_SPENT = pytest.StashKey[Spent]()


def run_here(item: pytest.Item, entry: Entry) -> RunResult:
    """Run an entry in this process, as often as policy says. If a fleet has run it, return that result."""
    if FROM_FLEET in item.stash:
        return item.stash[FROM_FLEET]()
    if NOT_HERE in item.stash or claim(item, entry):
        leave_to_others(item)
    item.addfinalizer(lambda: release(item, entry))
    hold_until_the_end(item)
    forget_judge(item)
    forget_run(item)
    spent = item.config.stash.get(_SPENT, Spent())
    conductor = Conductor(LocalRunner(workbench(item.config)), ItemCallbacks(item.config), spent)
    attempt, extra = next_attempt(item.config, entry), profilings(item.config.stash[BENCHMARKS].settings)
    conductor.add(Job(item, entry, allowance(item, entry), attempt=attempt, profilings=extra))
    try:
        conductor.run()
    except KeyboardInterrupt:
        conductor.stop()
        raise
    item.config.stash[_SPENT] = conductor.spent
    result = item.stash[RESULT]
    del item.stash[RESULT]
    return result


def next_attempt(config: pytest.Config, entry: Entry) -> int:
    """Return the number of the entry's next run in this invocation: above 1 if plugins repeat or rerun its test."""
    benchmarks = config.stash[BENCHMARKS]
    last = read_results(benchmarks.session_dir.joinpath(*entry.folder, RESULTS), benchmarks.session_dir)
    return last.attempt + 1 if last is not None and last.invocation == benchmarks.settings.invocation else 1


class ItemCallbacks:
    """The callbacks for items that run in this process."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def claims(self, job: Job) -> bool:
        return True

    def plan(self, job: Job) -> Plan:
        """Return the plan, as changed by the hook `pytest_bench_plan`."""
        plan = plan_of(job.entry, self._config.stash[BENCHMARKS])
        plan = replace(plan, attempt=job.attempt, uid=uuid.uuid4().hex)
        return job.item.ihook.pytest_bench_plan(item=job.item, plan=plan) or plan

    def began(self, job: Job) -> None:
        item, where = job.item, job.where
        item.ihook.pytest_bench_run_started(item=item, plan=job.plan)
        item.stash[UID], item.stash[DEFINITION] = job.plan.uid if job.plan else "", definition_of(job.entry)
        item.stash[BACKGROUND] = lambda: _background(item, job.plan, where)
        if where is not None:
            item.stash[MACHINE] = where.machine_id
        if self._config.stash[BENCHMARKS].settings.benchmark and job.plan is not None:
            from curator_bench.runner import recording

            recording.start_row(item, job.entry, job.plan, where)

    def progressed(self, job: Job, status: Mapping[str, Any]) -> None:
        """No-op: the controller reads the status file of local runs."""

    def ended(self, job: Job, result: RunResult) -> None:
        job.item.ihook.pytest_bench_run_finished(item=job.item, result=result)

    def verdict(self, job: Job, result: RunResult) -> Verdict:
        return judge_of(job.item, job.entry).by_requirements(result).verdict

    def is_disturbed(self, job: Job, result: RunResult) -> bool:
        return bool(disturbed_by(self._config, result.verdict, result.metrics))

    def gates(self, job: Job, result: RunResult) -> GateState:
        return judge_of(job.item, job.entry).gates(result)

    def another(self, job: Job, result: RunResult, decision: Decision) -> None:
        outcome = judge_of(job.item, job.entry).of_another(result)
        if decision.next is Next.CONFIRM:
            note_unconfirmed(job.item, job.entry, outcome.result, outcome.checks)
        else:
            note_run(job.item, job.entry, outcome.result, outcome.verdict, outcome.checks)

    def measured(self, job: Job, result: RunResult) -> None:
        outcome = _so_far(job, result)
        note_measured(job.item, job.entry, outcome.result, outcome.verdict, outcome.checks)

    def profiled(self, job: Job, plan: Plan, result: RunResult) -> None:
        """Keep the profiles for the row of the measured run, and remove the files of the extra one."""
        found = job.item.stash.setdefault(PROFILES, {}).setdefault(job.item.stash[UID], [])
        found += result.profiles
        remove_extra_run(plan)

    def unprofiled(self, job: Job, result: RunResult) -> None:
        """Record and show the measured run, which its item will not judge."""
        outcome = _so_far(job, result)
        run = note_run(job.item, job.entry, outcome.result, outcome.verdict, outcome.checks)
        if (report := self._config.pluginmanager.get_plugin(REPORT)) is not None:
            report.note_interrupted(run)

    def judge(self, job: Job, result: RunResult) -> None:
        """Keep the result. The item itself judges it after its fixtures."""
        job.item.stash[RESULT] = result

    def interrupted(self, job: Job, result: RunResult | None) -> None:
        """Record the stopped run, which its item will not judge."""
        if result is not None:
            note_interrupted(job.item, job.entry, result)


def _so_far(job: Job, result: RunResult) -> Outcome:
    judge = judge_of(job.item, job.entry)
    return judge.so_far(result) if _is_judged(job.item) else judge.by_requirements(result)


def _is_judged(item: pytest.Item) -> bool:
    return "judge_run" in getattr(item, "fixturenames", ())


def profilings(settings: Settings) -> tuple[Profiling, ...]:
    """Return the extra runs of --bench-profile."""
    native = settings.profile_native
    return tuple(Profiling(name, number, native) for number, name in enumerate(settings.profilers, 1))


def when_profiled(settings: Settings, can_fail: bool) -> Profile:
    """Return when an entry is profiled. `can_fail` is false if no gate decides about it."""
    if not settings.profilers:
        return Profile.NEVER
    if settings.profile_on == Profile.REGRESSION:
        return Profile.REGRESSION if can_fail else Profile.NEVER
    return Profile.ALWAYS


def _background(item: pytest.Item, plan: Plan | None, where: Where | None) -> Background:
    from curator_bench.runner.backgrounds import background_of

    mask = item.config.stash[BENCHMARKS].mask.also(plan.mask.values if plan else ())
    return background_of(item.config, item.stash[DEFINITION], mask, plan, where)


def allowance(item: pytest.Item, entry: Entry) -> Allowance:
    """Return how often the entry may run. Runs are confirmed only if the item uses `judge_run`."""
    settings = item.config.stash[BENCHMARKS].settings
    is_gated = _is_judged(item) and has_gates(entry, settings)
    return Allowance(
        retries=entry.retries,
        runs=settings.runs,
        confirm=settings.confirm if is_gated else 0,
        confirm_budget_s=settings.confirm_budget_s,
        shares=getattr(item.config, "workerinput", {}).get("workercount", 1),
        profile=when_profiled(settings, is_gated),
    )


def workbench(config: pytest.Config) -> Workbench:
    """Return the workbench that the runs of this process share. The first run makes it."""
    if _WORKBENCH not in config.stash:
        controller = os.getppid() if hasattr(config, "workerinput") else None
        config.stash[_WORKBENCH] = Workbench(
            config.stash[BENCHMARKS].session_dir, controller, provenance=provenance_of(config)
        )
        config.add_cleanup(config.stash[_WORKBENCH].close)
    return config.stash[_WORKBENCH]


def marker_of(config: pytest.Config) -> str:
    """Return the mark of the processes that runs of this process started; empty if there is no workbench yet."""
    return config.stash[_WORKBENCH].marker if _WORKBENCH in config.stash else ""


def plan_of(entry: Entry, benchmarks: Benchmarks) -> Plan:
    """Return the plan of a run of this entry in this session."""
    settings = benchmarks.settings
    command = command_of(entry, os.environ)
    artifacts = entry.file.artifacts_dir
    fleet = settings.fleet
    # Other machines get only the secrets they need, because scripts there do not inherit our environment.
    known = benchmarks.matrix.mask if fleet and fleet.address != "local" else benchmarks.mask
    plan = Plan(
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
        requires_programs=entry.requires_programs,
        datasets=command.datasets,
        data_setups=command.data_setups,
        subjects=tuple(subject.package for subject in entry.file.subjects),
        gpu_stats_interval_s=entry.file.gpu_stats_interval_s,
        gpu_stats_asked=entry.file.gpu_stats_asked,
        gpu_mem_use_warning_threshold=entry.gpu_mem_use_warning_threshold,
        gpu_check=command.gpu_check,
        skip_code=command.skip_code,
        problems=command.problems,
        mask=known.also(command.secrets),
    )
    return with_xennas_needs(plan)
