"""One loop conducts whatever carries runs out: here a fleet in simulated time, with items that only take notes."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from curator_bench.runner.conductor import Conductor, Job
from curator_bench.runner.policy import Allowance, Decision, GateState, Profile, Spent
from curator_bench.runner.runner import Event, Order
from curator_bench.runner.simulated_runner import SimulatedRunner
from curator_bench.values import Entry, MatrixFile, Place, Plan, Profiling, RunResult, Slice, Verdict, Where

STAMP = "2026-01-23T14:30:00+00:00"
FILE = MatrixFile("/m/matrix.yaml", "/m")
PASSED, FAILED, ERROR, CRASHED = Verdict.PASSED, Verdict.FAILED, Verdict.ERROR, Verdict.CRASHED


def entry(name: str) -> Entry:
    return Entry(name, Place(FILE.file, 1), FILE, "script.py")


def result(order: Order, verdict: Verdict = PASSED, seconds: float = 1.0, **more: Any) -> RunResult:
    return RunResult(order.plan.name, verdict, STAMP, STAMP, seconds, attempt=order.plan.attempt, **more)


@dataclass
class Notes:
    """What a conductor told of its jobs."""

    gate: Callable[[Job, RunResult], GateState] = lambda job, result: GateState.PASSED
    disturbance: Callable[[Job, RunResult], bool] = lambda job, result: False
    taken: frozenset[str] = frozenset()
    """Entries that others have claimed."""
    started: list[tuple[str, int, str]] = field(default_factory=list)
    recorded: list[tuple[str, int, Verdict]] = field(default_factory=list)
    judged: dict[str, RunResult] = field(default_factory=dict)
    stopped: dict[str, RunResult | None] = field(default_factory=dict)
    profiled_by: list[tuple[str, str, str]] = field(default_factory=list)
    """Entry, profiler and node of each run under a profiler that passed."""
    before_profiles: list[str] = field(default_factory=list)
    """Entries that were recorded before they were profiled."""

    def claims(self, job: Job) -> bool:
        return job.entry.name not in self.taken

    def plan(self, job: Job) -> Plan:
        name = job.entry.name
        return Plan(name, "s", "/s", f"/s/{name}", "python", "x.py", (), "/", uuid.uuid4().hex, attempt=job.attempt)

    def began(self, job: Job) -> None:
        self.started.append((job.entry.name, job.attempt, job.where.node if job.where else ""))

    def progressed(self, job: Job, status: Mapping[str, Any]) -> None: ...

    def ended(self, job: Job, result: RunResult) -> None: ...

    def verdict(self, job: Job, result: RunResult) -> Verdict:
        return result.verdict

    def is_disturbed(self, job: Job, result: RunResult) -> bool:
        return bool(self.disturbance(job, result))

    def gates(self, job: Job, result: RunResult) -> GateState:
        return self.gate(job, result)

    def another(self, job: Job, result: RunResult, decision: Decision) -> None:
        self.recorded.append((job.entry.name, job.attempt, result.verdict))

    def measured(self, job: Job, result: RunResult) -> None:
        self.before_profiles.append(job.entry.name)

    def profiled(self, job: Job, plan: Plan, result: RunResult) -> None:
        assert plan.profiling
        self.profiled_by.append((job.entry.name, plan.profiling.profiler, job.where.node if job.where else ""))

    def unprofiled(self, job: Job, result: RunResult) -> None:
        self.stopped[job.entry.name] = result

    def judge(self, job: Job, result: RunResult) -> None:
        assert job.entry.name not in self.judged, "judged twice"
        self.judged[job.entry.name] = result

    def interrupted(self, job: Job, result: RunResult | None) -> None:
        self.stopped[job.entry.name] = result


def conduct(runner: SimulatedRunner, notes: Notes, *jobs: Job, spent: Spent | None = None) -> Conductor:
    conductor = Conductor(runner, notes, spent or Spent())
    for job in reversed(jobs):
        conductor.add(job)
    conductor.run()
    return conductor


def job(name: str, **allowed: Any) -> Job:
    return Job(name, entry(name), Allowance(**allowed))


def test_an_error_is_tried_again_on_another_node_and_each_attempt_is_recorded() -> None:
    notes, avoided = Notes(), list[frozenset[str]]()

    def script(order: Order, where: Where) -> RunResult:
        avoided.append(order.not_on)
        return result(order, ERROR if order.plan.attempt < 3 else PASSED)

    conduct(SimulatedRunner(3, 1, script), notes, job("one", retries=2))
    assert notes.recorded == [("one", 1, ERROR), ("one", 2, ERROR)]
    assert (notes.judged["one"].verdict, notes.judged["one"].attempt) == (PASSED, 3)
    nodes = [node for _, _, node in notes.started]
    assert avoided == [frozenset(nodes[:attempt]) for attempt in range(3)]


def test_what_broke_is_judged_at_once_and_runs_that_are_asked_for_are_recorded() -> None:
    notes = Notes()
    verdicts = {"breaks": CRASHED, "fails": FAILED}
    runner = SimulatedRunner(2, 1, lambda order, where: result(order, verdicts[order.plan.name]))
    conduct(runner, notes, job("breaks", runs=3, retries=3), job("fails", runs=3))
    assert [one for one in notes.recorded if one[0] == "breaks"] == []
    assert [one[1] for one in notes.recorded if one[0] == "fails"] == [1, 2]
    assert notes.judged["fails"].attempt == 3


def test_a_gate_is_confirmed_on_the_node_it_was_measured_on_and_the_seconds_are_told() -> None:
    notes = Notes(gate=lambda job, result: GateState.INCONCLUSIVE)
    runner = SimulatedRunner(5, 1, lambda order, where: result(order, seconds=7.0))
    conductor = conduct(runner, notes, job("before"), job("gated", confirm=2), job("after"))
    nodes = {node for name, _, node in notes.started if name == "gated"}
    assert len(nodes) == 1
    assert notes.judged["gated"].attempt == 3
    assert notes.judged["gated"].confirming_s == 14.0
    assert notes.judged["before"].confirming_s == 0.0
    assert conductor.spent == Spent(35.0, 14.0)


def test_side_by_side_no_more_is_confirmed_than_the_budget_allows() -> None:
    """What is under way counts with what it is expected to take."""
    notes = Notes(gate=lambda job, result: GateState.FAILED)
    runner = SimulatedRunner(10, 1, lambda order, where: result(order, seconds=10.0))
    jobs = [job(f"job{number}", confirm=1, confirm_budget_s=35.0) for number in range(10)]
    conductor = conduct(runner, notes, *jobs)
    assert sum(one.attempt == 2 for one in notes.judged.values()) == 3
    assert conductor.spent.confirming_s == 30.0
    left = [one for one in notes.judged.values() if one.attempt == 1]
    assert all("would exceed the budget of 35 s" in one.warnings[0] for one in left)


def test_a_run_that_cannot_be_measured_again_is_judged_by_what_was_measured() -> None:
    notes = Notes(gate=lambda job, result: GateState.FAILED)
    runner = SimulatedRunner(1, 2, lambda order, where: result(order, metrics={"time_s": 1.4}))
    conductor = Conductor(runner, notes)
    conductor.add(job("gated", confirm=1))
    while not notes.recorded:
        conductor.step()
    runner.refuse_next = "its node died"
    conductor.run()
    judged = notes.judged["gated"]
    assert (judged.attempt, judged.verdict, judged.metrics) == (1, PASSED, {"time_s": 1.4})
    assert judged.warnings == ("it could not be measured again on its machine: its node died",)
    assert conductor.spent.confirming_s == 0.0


def test_an_order_that_is_refused_begins_and_ends_as_an_error() -> None:
    notes = Notes()
    runner = SimulatedRunner(1, 1, lambda order, where: result(order))
    runner.refuse_next = "it asks for CPU: 500"
    conduct(runner, notes, job("huge"), job("small"))
    assert notes.judged["huge"].verdict is ERROR
    assert "CPU: 500" in notes.judged["huge"].error
    assert notes.judged["small"].verdict is PASSED


def test_what_others_have_claimed_is_neither_run_nor_judged() -> None:
    notes = Notes(taken=frozenset({"theirs"}))
    conduct(SimulatedRunner(1, 1, lambda order, where: result(order)), notes, job("theirs"), job("ours"))
    assert list(notes.judged) == ["ours"]


def test_what_runs_when_it_is_stopped_is_recorded_as_interrupted_and_what_waits_leaves_no_trace() -> None:
    notes = Notes()
    conductor = Conductor(SimulatedRunner(1, 2, lambda order, where: result(order, seconds=60.0)), notes)
    for number in range(5):
        conductor.add(job(f"job{number}"))
    while len(notes.started) < 2:
        conductor.step()
    conductor.stop()
    ran = {name for name, result in notes.stopped.items() if result is not None}
    assert ran == {name for name, _, _ in notes.started}
    assert all(one.verdict is Verdict.INTERRUPTED for one in notes.stopped.values() if one)
    assert not notes.judged


def test_a_node_that_dies_costs_its_runs_an_attempt_and_nothing_else() -> None:
    notes = Notes()
    runner = SimulatedRunner(20, 2, lambda order, where: result(order, seconds=5.0))
    conductor = Conductor(runner, notes)
    for number in range(200):
        conductor.add(job(f"job{number}", retries=1))
    while len(notes.judged) < 50:
        conductor.step()
    runner.lose("node3")
    conductor.run()
    assert len(notes.judged) == 200
    assert all(one.verdict is PASSED for one in notes.judged.values())
    assert {error for _, _, error in notes.recorded} <= {ERROR}
    assert "node3" not in {node for _, attempt, node in notes.started if attempt == 2}


PROFILERS = Profiling("py-spy", 1), Profiling("memray", 2)


def profiled_job(name: str, when: Profile = Profile.ALWAYS, **allowed: Any) -> Job:
    return Job(name, entry(name), Allowance(profile=when, **allowed), profilings=PROFILERS)


def test_an_entry_is_profiled_on_its_machine_after_it_was_recorded_and_judged_by_what_was_measured() -> None:
    notes, plans = Notes(), list[Plan]()

    def script(order: Order, where: Where) -> RunResult:
        plans.append(order.plan)
        return result(order, metrics={"time_s": 9.0 if order.plan.profiling else 1.0})

    conductor = conduct(SimulatedRunner(5, 1, script), notes, profiled_job("one"), job("other"))
    [node] = {node for name, _, node in notes.started if name == "one"}
    assert notes.profiled_by == [("one", "py-spy", node), ("one", "memray", node)]
    assert notes.before_profiles == ["one"]
    assert notes.judged["one"].metrics == {"time_s": 1.0}
    assert len({plan.uid for plan in plans}) == len(plans) == 4
    assert conductor.spent == Spent(2.0)


def test_a_run_under_a_profiler_that_fails_is_a_warning_of_the_run_that_counts() -> None:
    notes = Notes()

    def script(order: Order, where: Where) -> RunResult:
        profiling = order.plan.profiling
        if profiling is None:
            return result(order)
        said = ("the profiler py-spy: it may not", "the machine was busy")
        return result(order, CRASHED, error="exit code 3") if profiling.number == 2 else result(order, warnings=said)

    conduct(SimulatedRunner(1, 1, script), notes, profiled_job("one", retries=3))
    assert notes.judged["one"].verdict is PASSED
    assert notes.judged["one"].warnings == (
        "the profiler py-spy: it may not",
        "the profiler memray: its run did not pass (crashed): exit code 3",
    )


def test_only_a_confirmed_regression_is_profiled_if_that_was_asked_for() -> None:
    runs = Counter[str]()

    def gate(job: Job, _: RunResult) -> GateState:
        runs[job.entry.name] += 1
        is_worse = job.entry.name == "slower" or (job.entry.name == "noisy" and runs["noisy"] == 1)
        return GateState.FAILED if is_worse else GateState.PASSED

    notes = Notes(gate=gate)
    jobs = [profiled_job(name, Profile.REGRESSION, confirm=2) for name in ("slower", "noisy", "same")]
    conduct(SimulatedRunner(2, 1, lambda order, where: result(order)), notes, *jobs)
    assert [name for name, _, _ in notes.profiled_by] == ["slower", "slower"]
    assert {name: one.attempt for name, one in notes.judged.items()} == {"slower": 2, "noisy": 2, "same": 1}


def test_what_is_being_profiled_when_it_is_stopped_stays_as_it_was_measured() -> None:
    notes = Notes()
    conductor = Conductor(SimulatedRunner(1, 1, lambda order, where: result(order, seconds=9.0)), notes)
    conductor.add(profiled_job("one"))
    while not notes.before_profiles:
        conductor.step()
    conductor.step()
    conductor.stop()
    stopped = notes.stopped["one"]
    assert stopped is not None
    assert stopped.verdict is PASSED
    assert not notes.judged


def test_a_machine_that_is_gone_costs_the_profiles_and_nothing_else() -> None:
    notes = Notes()
    runner = SimulatedRunner(1, 1, lambda order, where: result(order))
    conductor = Conductor(runner, notes)
    conductor.add(profiled_job("one"))
    while not notes.before_profiles:
        conductor.step()
    runner.refuse_next = "its node died"
    conductor.run()
    assert notes.judged["one"].warnings == ("it was not profiled: its node died",)
    assert [profiler for _, profiler, _ in notes.profiled_by] == ["memray"]


class Counting(SimulatedRunner):
    """Counts how often it is asked anything."""

    def __init__(self) -> None:
        super().__init__(1000, 8, lambda order, where: result(order, seconds=60.0))
        self.asked = 0

    def has_room(self, needs: Slice) -> bool:
        self.asked += 1
        return super().has_room(needs)

    def next_event(self, within_s: float) -> Event | None:
        self.asked += 1
        return super().next_event(within_s)


@pytest.mark.parametrize("entries", [800, 24_000])
def test_a_thousand_nodes_are_kept_busy_and_each_event_costs_the_same(entries: int) -> None:
    """8,000 slots: a runner is asked as often for each of many entries as for each of a few."""
    notes, runner = Notes(), Counting()
    conduct(runner, notes, *(job(f"job{number}") for number in range(entries)))
    assert Counter(one.verdict for one in notes.judged.values()) == {PASSED: entries}
    assert runner.now == pytest.approx(60.0 * -(-entries // 8000))
    assert runner.asked <= 6 * entries
