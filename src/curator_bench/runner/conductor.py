"""Conducts runs: submits them to a runner, asks policy what comes next, has them recorded and judged.

The same loop conducts the runs of this process, of a fleet and of a simulated fleet. The cost of an event does not grow
with the number of runs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import uuid4

from curator_bench.execution.failed import answer_for, failed_before_it_began
from curator_bench.execution.profiling import PROBLEM
from curator_bench.measure.processes import patience
from curator_bench.runner.policy import (
    NOTHING_SPENT,
    Allowance,
    Decision,
    GateState,
    Happened,
    Next,
    Spent,
    asks_gates,
    asks_gates_to_profile,
    next_step,
)
from curator_bench.runner.runner import Event, Order, Refused, Runner
from curator_bench.values import Began, Ended, Entry, Plan, Profiling, Progressed, RunResult, Slice, Verdict, Where

_STOPS_WITHIN_S = 10.0
_TICK_S = 0.5


@dataclass(slots=True)
class Profiled:
    """A measured run, while it is profiled in further runs that do not count."""

    result: RunResult
    plan: Plan
    """The plan of the measured run."""
    where: Where | None
    left: list[Profiling]
    """Steps that are still to be done, the next one first."""
    warnings: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Job:
    """One entry to run, from its first attempt to its judgement."""

    item: Any
    """The key of the job for the callbacks: pytest's item."""
    entry: Entry
    allowed: Allowance = field(default_factory=Allowance)
    needs: Slice = field(default_factory=Slice)
    longest_s: float = math.inf
    attempt: int = 1
    happened: Happened = field(default_factory=Happened)
    not_on: frozenset[str] = frozenset()
    confirms: tuple[RunResult, Where | None] | None = None
    """The run that this attempt confirms, and where it ran."""
    confirming_s: float = 0.0
    reserved_s: float = 0.0
    """The part of the budget reserved for the confirming run in progress."""
    plan: Plan | None = None
    """The plan of the attempt in progress."""
    profilings: tuple[Profiling, ...] = ()
    """The runs under a profiler that policy may ask for."""
    profiled: Profiled | None = None
    """The measured run, while the attempt in progress only profiles it."""
    where: Where | None = None
    submitted: datetime = field(default_factory=lambda: datetime.now(UTC))
    began: datetime | None = None
    """None while the run waits for a place."""


class Callbacks(Protocol):
    """The calls of a conductor to pytest's items."""

    def claims(self, job: Job) -> bool:
        """Claim the entry. Returns false if another process has it."""

    def plan(self, job: Job) -> Plan:
        """Return the plan of the next attempt."""

    def began(self, job: Job) -> None: ...

    def progressed(self, job: Job, status: Mapping[str, Any]) -> None: ...

    def ended(self, job: Job, result: RunResult) -> None: ...

    def verdict(self, job: Job, result: RunResult) -> Verdict:
        """Return the verdict without gates."""

    def is_disturbed(self, job: Job, result: RunResult) -> bool:
        """Return true if the machine did something else during the run."""

    def gates(self, job: Job, result: RunResult) -> GateState:
        """Add a run, and ask the gates about all runs of the job."""

    def another(self, job: Job, result: RunResult, decision: Decision) -> None:
        """Record a run that is followed by another one."""

    def measured(self, job: Job, result: RunResult) -> None:
        """Record the last run, which is judged once it has been profiled."""

    def profiled(self, job: Job, plan: Plan, result: RunResult) -> None:
        """Keep the profiles of a run. `plan` is that of the extra run, of which `result` came."""

    def judge(self, job: Job, result: RunResult) -> None:
        """Record and judge the last run."""

    def unprofiled(self, job: Job, result: RunResult) -> None:
        """Record the last run, whose profiling was stopped."""

    def interrupted(self, job: Job, result: RunResult | None) -> None:
        """Record a run that was stopped. `result` is None if it never began."""


class Conductor:
    """Conducts jobs with a runner. Not thread-safe."""

    def __init__(self, runner: Runner, callbacks: Callbacks, spent: Spent = NOTHING_SPENT) -> None:
        """`spent` is the time of earlier runs of this process."""
        self._runner, self._callbacks = runner, callbacks
        self._waiting: dict[str, list[Job]] = {}
        """Waiting jobs by their needs. The last of each list goes first."""
        self._under_way: dict[str, Job] = {}
        self.spent = spent

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self._under_way

    @property
    def is_waiting_for_runs(self) -> bool:
        return bool(self._under_way)

    def add(self, job: Job) -> None:
        """Add a job. It goes first among those with the same needs."""
        self._waiting.setdefault(str(job.needs), []).append(job)

    def run(self) -> None:
        """Conduct until all jobs have been judged."""
        while not self.is_idle:
            self.step()

    def step(self, within_s: float = _TICK_S) -> None:
        """Submit jobs while there is room, then handle the next event."""
        self._submit_what_there_is_room_for()
        if (event := self._runner.next_event(within_s)) is not None:
            self._take(event)

    def stop(self) -> None:
        """Stop the runs in progress and record them as interrupted, as on Ctrl-C.

        Jobs that never began leave no trace.
        """
        for uid in self._under_way:
            self._runner.stop(uid)
        deadline = time.monotonic() + patience(_STOPS_WITHIN_S)
        try:
            while self._under_way and time.monotonic() < deadline:
                self._take_stopped(self._runner.next_event(_TICK_S))
        finally:
            for job in list(self._under_way.values()):
                self._note_stopped(job, None)
            for job in [job for jobs in self._waiting.values() for job in jobs]:
                if job.profiled is not None:
                    self._callbacks.unprofiled(job, self._back_to_measured(job, job.profiled))

    def _submit_what_there_is_room_for(self) -> None:
        for kind, jobs in list(self._waiting.items()):
            while jobs and self._runner.has_room(jobs[-1].needs):
                self._submit(jobs.pop())
            if not jobs:
                del self._waiting[kind]

    def _submit(self, job: Job) -> None:
        if job.profiled is not None:
            self._submit_profiling(job, job.profiled)
            return
        if job.attempt == 1 and not self._callbacks.claims(job):
            return
        job.plan, job.submitted = self._callbacks.plan(job), datetime.now(UTC)
        job.where, job.began = None, None
        self._under_way[job.plan.uid] = job
        like = job.confirms[1] if job.confirms else None
        self._runner.submit(Order(job.plan, job.needs, job.not_on, like, job.longest_s))

    def _submit_profiling(self, job: Job, profiled: Profiled) -> None:
        """Run the entry once more on the same machine, with the same plan, under the next profiler."""
        job.plan = replace(profiled.plan, uid=uuid4().hex, repeat=1, profiling=profiled.left.pop(0))
        job.where, job.began, job.submitted = None, None, datetime.now(UTC)
        self._under_way[job.plan.uid] = job
        self._runner.submit(Order(job.plan, job.needs, like=profiled.where, longest_s=job.longest_s))

    def _take(self, event: Event) -> None:
        job = self._under_way.get(event.uid)
        if job is None:
            return
        match event:
            case Began(where=where):
                self._begin(job, where)
            case Progressed(status=status):
                self._callbacks.progressed(job, status)
            case Ended(result=result, where=where):
                self._begin(job, where)
                self._finish(job, result)
            case Refused():
                self._refuse(job, event)

    def _begin(self, job: Job, where: Where | None) -> None:
        if job.began is None:
            job.where, job.began = where, datetime.now(UTC)
            if job.profiled is None:
                self._callbacks.began(job)

    def _refuse(self, job: Job, refused: Refused) -> None:
        """Handle a refused run. If it was to confirm another one, that one is judged as it was measured."""
        assert job.plan
        if job.profiled is not None:
            del self._under_way[job.plan.uid]
            self._go_on_profiling(job, job.profiled, f"it was not profiled: {refused.reason}")
            return
        if job.confirms is not None:
            del self._under_way[job.plan.uid]
            self._spend(confirming_s=-job.reserved_s)
            why = f"it could not be measured again on its machine: {refused.reason}"
            self._judge(job, _warned(job.confirms[0], why))
            return
        self._begin(job, None)
        result = failed_before_it_began(job.plan, refused.reason, refused.cause)
        self._finish(job, result, is_hopeless=refused.is_final)

    def _finish(self, job: Job, result: RunResult, *, is_hopeless: bool = False) -> None:
        assert job.plan
        del self._under_way[job.plan.uid]
        if job.profiled is not None:
            self._take_profiles(job, job.profiled, result)
            return
        self._callbacks.ended(job, result)
        decision = self._decide(job, result, is_hopeless=is_hopeless or bool(job.plan.problems))
        if decision.next is Next.JUDGE:
            self._judge(job, _warned(result, decision.reason))
            return
        if decision.next is Next.PROFILE:
            self._profile(job, _warned(result, decision.reason))
            return
        self._callbacks.another(job, result, decision)
        self._go_on(job, result, decision.next)

    def _decide(self, job: Job, result: RunResult, *, is_hopeless: bool) -> Decision:
        verdict = self._callbacks.verdict(job, result)
        is_disturbed = self._callbacks.is_disturbed(job, result)
        job.happened = job.happened.after(
            verdict, result.duration_s, is_hopeless=is_hopeless, is_disturbed=is_disturbed
        )
        self._note_seconds(job, result.duration_s)
        allowed = job.allowed if self._runner.can_repeat(job.where) else replace(job.allowed, confirm=0)
        if asks_gates(job.happened, allowed) or asks_gates_to_profile(job.happened, allowed):
            job.happened = replace(job.happened, gates=self._callbacks.gates(job, result))
        return next_step(job.happened, allowed, self.spent)

    def _note_seconds(self, job: Job, seconds: float) -> None:
        """Add the seconds of a run to the time spent. Those of a confirming run replace the seconds reserved for it."""
        if job.confirms is None:
            self._spend(seconds)
            return
        self._spend(seconds, seconds - job.reserved_s)
        job.confirming_s += seconds
        job.reserved_s = 0.0

    def _spend(self, runs_s: float = 0.0, confirming_s: float = 0.0) -> None:
        self.spent = Spent(self.spent.runs_s + runs_s, self.spent.confirming_s + confirming_s)

    def _go_on(self, job: Job, result: RunResult, step: Next) -> None:
        """Let the job wait for its next attempt."""
        job.attempt += 1
        if step is Next.RETRY and job.where is not None:
            job.not_on |= {job.where.node}
        if step in (Next.CONFIRM, Next.MEASURE_AGAIN):
            job.confirms, job.reserved_s = (result, job.where), result.duration_s
            self._spend(confirming_s=job.reserved_s)
        self.add(job)

    def _profile(self, job: Job, result: RunResult) -> None:
        """Begin to profile a measured run, which is recorded first: the rest may be stopped at any time."""
        assert job.plan
        self._callbacks.measured(job, result)
        job.profiled = Profiled(result, job.plan, job.where, list(job.profilings))
        self._go_on_profiling(job, job.profiled)

    def _take_profiles(self, job: Job, profiled: Profiled, result: RunResult) -> None:
        assert job.plan
        assert job.plan.profiling
        profiled.warnings += [text for text in result.warnings if text.startswith(PROBLEM)]
        if result.verdict is Verdict.PASSED:
            self._callbacks.profiled(job, job.plan, result)
        else:
            what = f"{PROBLEM}{job.plan.profiling.profiler}: its run did not pass ({result.verdict}): {result.error}"
            profiled.warnings.append(what)
        self._go_on_profiling(job, profiled)

    def _go_on_profiling(self, job: Job, profiled: Profiled, problem: str = "") -> None:
        """Let the job wait for its next profiler. After the last one it is judged."""
        profiled.warnings += [problem] if problem else []
        if profiled.left:
            self.add(job)
            return
        self._judge(job, self._back_to_measured(job, profiled))

    @staticmethod
    def _back_to_measured(job: Job, profiled: Profiled) -> RunResult:
        job.profiled, job.plan, job.where = None, profiled.plan, profiled.where
        return replace(profiled.result, warnings=(*profiled.result.warnings, *dict.fromkeys(profiled.warnings)))

    def _judge(self, job: Job, result: RunResult) -> None:
        self._submit_what_there_is_room_for()  # first, because the judgement takes some time
        self._callbacks.judge(job, replace(result, confirming_s=job.confirming_s) if job.confirming_s else result)

    def _take_stopped(self, event: Event | None) -> None:
        match event:
            case Began(uid, where) if uid in self._under_way:
                self._begin(self._under_way[uid], where)
            case Ended(uid, result, where) if uid in self._under_way:
                self._begin(self._under_way[uid], where)
                self._note_stopped(self._under_way[uid], result)
            case Refused(uid) if uid in self._under_way:
                self._note_stopped(self._under_way[uid], None)

    def _note_stopped(self, job: Job, result: RunResult | None) -> None:
        assert job.plan
        del self._under_way[job.plan.uid]
        if job.profiled is not None:
            self._callbacks.unprofiled(job, self._back_to_measured(job, job.profiled))
            return
        if job.began is None:
            self._callbacks.interrupted(job, None)
            return
        if result is None or result.verdict is not Verdict.INTERRUPTED:
            host = job.where.host if job.where else ""
            result = answer_for(job.plan, Verdict.INTERRUPTED, "stopped from outside", None, job.began, host)
        self._callbacks.interrupted(job, result)


def _warned(result: RunResult, warning: str) -> RunResult:
    return replace(result, warnings=(*result.warnings, warning)) if warning else result
