"""A session with a fleet: entries run side by side, and the protocol of each item runs when its result is there.

Submitting, recording and judging all happen in pytest's main thread.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import call_and_report
from _pytest.skipping import evaluate_skip_marks

from curator_bench import interrupts
from curator_bench.collection.benchmarks import BENCHMARKS, REPORT
from curator_bench.collection.items import MatrixModule, backstop_s, entry_of
from curator_bench.errors import BenchError
from curator_bench.fleet.code_shipping import pack
from curator_bench.fleet.fleet import LOCAL, Fleet, FleetSettings
from curator_bench.fleet.messages import Request
from curator_bench.fleet.quarantine import Quarantine
from curator_bench.fleet.slices import slice_of
from curator_bench.runner.claiming import claim, in_words, release, silence_of
from curator_bench.runner.conductor import Conductor, Job
from curator_bench.runner.fleet_runner import FleetRunner
from curator_bench.runner.judging import forget_judge
from curator_bench.runner.policy import Decision, Next
from curator_bench.runner.run_records import forget_run
from curator_bench.runner.running import (
    FROM_FLEET,
    RESULT,
    ItemCallbacks,
    allowance,
    next_attempt,
    plan_of,
    profilings,
    workbench,
)
from curator_bench.values import RunResult, Verdict

if TYPE_CHECKING:
    from curator_bench.options.settings import FleetOptions
    from curator_bench.report.terminal import TerminalReport

_QUARANTINE = pytest.StashKey[Quarantine]()
_TICK_S = 0.5
_LOOKS_FOR_A_SIGN_EVERY_S = 2.0


class FleetHooks:
    """The hooks of --bench-fleet."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run entries in the fleet, then all other items one by one as usual."""
        items = Items(session)
        has_errors = session.testsfailed and not session.config.option.continue_on_collection_errors
        if has_errors or session.config.option.collectonly or not items.of_the_fleet:
            return None  # pytest itself reports why nothing runs
        try:
            run_in_fleet(session.config, items)
        except BenchError as error:
            raise pytest.UsageError(str(error)) from None
        items.run_others()
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the run's time to the item's set-up, as if it had run here, for --durations and junit."""
        report = yield
        if call.when == "setup" and RESULT in item.stash:
            report.duration += item.stash[RESULT].duration_s
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        if _QUARANTINE in config.stash:
            for line in config.stash[_QUARANTINE].lines():
                terminalreporter.write_line(line, yellow=True)


def run_in_fleet(config: pytest.Config, items: Items) -> None:
    """Conduct the entries of a session in the fleet of --bench-fleet."""
    options = config.stash[BENCHMARKS].settings.fleet
    assert options is not None
    jobs = [_job(item, options) for item in items.of_the_fleet]
    runner = FleetRunner(
        lambda: _new_fleet(config, options, jobs),
        lambda: _request(config, options, jobs),
        max_runs=options.max_runs,
        wait_s=options.wait_s,
        machine=config.stash[BENCHMARKS].settings.machine,
    )
    callbacks = FleetCallbacks(config, items, runner)
    conductor = callbacks.conductor = Conductor(runner, callbacks)
    for job in reversed(jobs):
        conductor.add(job)
    try:
        _show(config, runner.start())
        with interrupts.held():
            while callbacks.is_waiting or not conductor.is_idle:
                interrupts.raise_held_back()
                conductor.step(_TICK_S if conductor.is_waiting_for_runs or callbacks.has_silent else 0.0)
                callbacks.look_after_waiting(conductor)
    except BaseException:
        conductor.stop()
        callbacks.give_up()
        raise
    finally:
        config.stash[_QUARANTINE] = runner.quarantine
        runner.close()


def _job(item: pytest.Item, options: FleetOptions) -> Job:
    entry = entry_of(item)
    assert entry is not None
    needs = slice_of(entry.ray, options.runs_per_gpu)
    extra = profilings(item.config.stash[BENCHMARKS].settings)
    return Job(item, entry, allowance(item, entry), needs, backstop_s(entry), profilings=extra)


def _new_fleet(config: pytest.Config, options: FleetOptions, jobs: list[Job]) -> Fleet:
    """Return the fleet. A local one has each resource in the largest amount that an entry needs."""
    most: dict[str, float] = {}
    for job in jobs:
        for name, amount in job.needs.resources.items():
            most[name] = max(amount, most.get(name, 0.0))
    directory = config.stash[BENCHMARKS].session_dir / "fleet"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BenchError(f"results cannot be written: {error}") from None
    return Fleet(FleetSettings(options.address, options.cpus, options.gpus, most), workbench(config), directory)


def _request(config: pytest.Config, options: FleetOptions, jobs: list[Job]) -> Request:
    """Return the request to start the fleet. A local fleet needs no code shipped to it."""
    if options.address == LOCAL:
        return Request()
    benchmarks = config.stash[BENCHMARKS]
    own = pack((plan_of(job.entry, benchmarks) for job in jobs), benchmarks.session_dir)
    return Request(own, more_nodes_may_come=bool(options.wait_s))


def _show(config: pytest.Config, fleet: Fleet) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and terminal.verbosity >= 0:
        terminal.write_line(f"Fleet: {', '.join(map(str, fleet.nodes))}")
        for note in fleet.notes:
            terminal.write_line(f"    {note}")


class FleetCallbacks(ItemCallbacks):
    """Callbacks of items whose entries run in the fleet, or in other invocations of the session."""

    conductor: Conductor

    def __init__(self, config: pytest.Config, items: Items, runner: FleetRunner) -> None:
        super().__init__(config)
        self._items, self._runner = items, runner
        self._elsewhere: deque[Job] = deque()
        """Jobs that other invocations run or have run."""
        self._silent: dict[Job, float] = {}
        """Jobs claimed by another machine that may be dead, and the monotonic time of the next look at each."""
        self._same: dict[str, list[Job]] = {}
        """Jobs of entries under way here that pytest-repeat multiplied, by entry id. They run one after the other."""
        self._next: list[Job] = []
        """Jobs whose turn has come."""
        self._rerun: Job | None = None
        """The job that an item waits for, whose test is run again."""
        self._ended: deque[Job] = deque()
        """Jobs that ended meanwhile. Their items come afterwards."""

    @property
    def is_waiting(self) -> bool:
        return bool(self._elsewhere or self._silent or self._next or self._ended)

    @property
    def has_silent(self) -> bool:
        return bool(self._silent)

    def claims(self, job: Job) -> bool:
        if job.entry.id in self._same:
            self._same[job.entry.id].append(job)
            return False
        if not claim(job.item, job.entry):
            self._same[job.entry.id] = []
            job.attempt = next_attempt(self._config, job.entry)
            return True
        if not self._runner.gone and silence_of(self._config, job.entry):
            self._silent[job] = 0.0
        else:
            self._elsewhere.append(job)
        return False

    def began(self, job: Job) -> None:
        super().began(job)
        if job.where is not None and (report := self._report()) is not None:
            report.note_started(job.item.nodeid, str(job.where), job.where.gpus)

    def progressed(self, job: Job, status: Mapping[str, Any]) -> None:
        if (report := self._report()) is not None:
            report.note_status(job.item.nodeid, status)

    def another(self, job: Job, result: RunResult, decision: Decision) -> None:
        super().another(job, result, decision)
        if (report := self._report()) is not None:
            why = result.error.partition("\n")[0] if decision.next is Next.RETRY else decision.reason
            report.note_waiting(job.item.nodeid, f"attempt {job.attempt}: {why}")

    def judge(self, job: Job, result: RunResult) -> None:
        super().judge(job, result)
        if self._rerun is None:
            self._run_item(job)
        elif self._rerun is not job:
            self._ended.append(job)

    def _run_item(self, job: Job) -> None:
        answers = self._answers(job)
        job.item.stash[FROM_FLEET] = lambda: next(answers)
        try:
            self._items.run(job.item)
        finally:
            self._leave(job)

    def _answers(self, job: Job) -> Iterator[RunResult]:
        """Yield the result of a job, then those of further runs."""
        item: pytest.Item = job.item
        while True:
            yield item.stash[RESULT]
            del item.stash[RESULT]
            forget_judge(item)
            forget_run(item)
            attempt = next_attempt(self._config, job.entry)
            same = job.allowed, job.needs, job.longest_s
            self._rerun = Job(item, job.entry, *same, attempt=attempt, profilings=job.profilings)
            try:
                self.conductor.add(self._rerun)
                while RESULT not in item.stash:
                    interrupts.raise_held_back()
                    self.conductor.step(_TICK_S)
            finally:
                self._rerun = None

    def give_up(self) -> None:
        """Record the jobs whose items did not come as interrupted."""
        for job in self._ended:
            result = replace(job.item.stash[RESULT], verdict=Verdict.INTERRUPTED, error="stopped from outside")
            self.interrupted(job, result)

    def interrupted(self, job: Job, result: RunResult | None) -> None:
        super().interrupted(job, result)
        self._leave(job)

    def unprofiled(self, job: Job, result: RunResult) -> None:
        super().unprofiled(job, result)
        self._leave(job)

    def _leave(self, job: Job) -> None:
        release(job.item, job.entry)
        self._next += self._same.pop(job.entry.id, [])

    def look_after_waiting(self, conductor: Conductor) -> None:
        """Skip the items of entries that others run, and look again at machines that may be dead."""
        now = time.monotonic()
        while self._ended:
            self._run_item(self._ended.popleft())
        while self._next:
            conductor.add(self._next.pop())
        if self._runner.gone:  # without a fleet no entry can be taken over
            self._elsewhere.extend(self._silent)
            self._silent.clear()
        while self._elsewhere:
            self._items.run(self._elsewhere.popleft().item)
        for job in [job for job, look_at in self._silent.items() if look_at <= now]:
            self._look_for_a_sign(job, conductor, now)

    def _look_for_a_sign(self, job: Job, conductor: Conductor, now: float) -> None:
        """Add the job again once it is known whether another machine's claim on it holds."""
        silence = silence_of(self._config, job.entry)
        if silence is None or silence.left_s <= 0:
            del self._silent[job]
            conductor.add(job)
            return
        if not self._silent[job] and conductor.is_idle and (report := self._report()) is not None:
            report.say(f"{job.entry.id} is {in_words(silence)}")
        self._silent[job] = now + _LOOKS_FOR_A_SIGN_EVERY_S

    def _report(self) -> TerminalReport | None:
        found: TerminalReport | None = self._config.pluginmanager.get_plugin(REPORT)
        return found


class Items:
    """Runs the protocols of items. Fixtures of wider scope stay while items that share them wait."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self.of_the_fleet = [item for item in session.items if _is_for_the_fleet(item)]
        in_fleet = set(self.of_the_fleet)
        self.others = [item for item in session.items if item not in in_fleet]
        self._waiting = dict.fromkeys(self.of_the_fleet)
        self._last: pytest.Item | None = None

    def run(self, item: pytest.Item) -> None:
        """Run set-up, call and teardown of an item. Raises what ends the session, as -x does."""
        del self._waiting[item]
        self._leave_the_last_one(item)
        self._last = item
        self._protocol(item, self._likely_next(item))

    def run_others(self) -> None:
        for number, item in enumerate(self.others):
            self._leave_the_last_one(item)
            self._last = item
            self._protocol(item, self.others[number + 1] if number + 1 < len(self.others) else None)

    def _protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        item.ihook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)

    def _likely_next(self, item: pytest.Item) -> pytest.Item | None:
        beside = next((other for other in self._waiting if other.parent is item.parent), None)
        return beside or next(iter(self._waiting), None) or next(iter(self.others), None)

    def _leave_the_last_one(self, item: pytest.Item) -> None:
        """Tear down the last item's fixtures that this one does not share. Pytest was told to expect another item."""
        chain = item.listchain()
        if self._last is not None and any(node not in chain for node in self._session._setupstate.stack):
            report = call_and_report(self._last, "teardown", log=False, nextitem=item)
            if report.failed:
                self._last.ihook.pytest_runtest_logreport(report=report)


def _is_for_the_fleet(item: pytest.Item) -> bool:
    """True for an entry's item that no mark skips."""
    return isinstance(item.parent, MatrixModule) and evaluate_skip_marks(item) is None
