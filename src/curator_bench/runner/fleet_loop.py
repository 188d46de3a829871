"""Keeps entries in flight in a fleet, and has each item's protocol run when its result is there."""

from __future__ import annotations

import time
import uuid
from collections import deque
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING

import pytest

from curator_bench import interrupts
from curator_bench.collection import BENCHMARKS, REPORT, backstop_s
from curator_bench.errors import BenchError, ClusterError
from curator_bench.execution.failed import answer_for, failed_before_it_began
from curator_bench.fleet.baggage import pack
from curator_bench.fleet.fleet import LOCAL, Fleet, FleetSettings
from curator_bench.fleet.left_out import LeftOut
from curator_bench.fleet.model import (
    Broken,
    Ended,
    Event,
    Lost,
    Nodes,
    Order,
    Request,
    Slice,
    Started,
    Told,
    Where,
)
from curator_bench.fleet.slices import capacity, fits, largest
from curator_bench.runner.attempts import attempts_of
from curator_bench.runner.claiming import claim, in_words, release, silence_of
from curator_bench.runner.fleet_items import Items
from curator_bench.runner.flights import Flight, flight_of, interrupted, lost_at
from curator_bench.runner.policy import Next
from curator_bench.runner.running import (
    ARRIVED,
    note_interrupted,
    note_start,
    plan_of,
    with_hooks,
    workbench,
)
from curator_bench.values import Cause, Entry, Plan, RunResult, Verdict

if TYPE_CHECKING:
    from curator_bench.report.terminal import TerminalReport

FLEET = pytest.StashKey["FleetLoop"]()
_TICK_S = 0.5
_LOOKS_FOR_A_SIGN_EVERY_S = 2.0
_STOPS_WITHIN_S = 10.0
_QUEUED_FOR_NODES_TO_COME = 64
"""A cluster that scales itself starts nodes for what is in its queue."""
_MOST_FLEETS = 3
"""A fleet that ends under us is started anew; not for ever."""
_TOO_LATE = "no answer within {seconds:.0f} s, its time with all that belongs to it; its worker was ended"


class FleetLoop:
    """Everything happens in pytest's main thread: submitting, rows, judging."""

    def __init__(self, session: pytest.Session, items: Items) -> None:
        config = session.config
        options = config.stash[BENCHMARKS].settings.fleet
        assert options is not None
        self._config, self._items, self._options = config, items, options
        flights = [flight_of(item, options.runs_per_gpu) for item in items.of_the_fleet]
        self._waiting: dict[str, list[Flight]] = {}
        for flight in reversed(flights):
            self._wait(flight)
        self._flights: dict[str, Flight] = {}
        self._failed: deque[tuple[Flight, str, Cause]] = deque()
        self._elsewhere: deque[Flight] = deque()
        """Other invocations run them, or have."""
        self._silent: dict[Flight, float] = {}
        """Another machine claimed them and may be dead; and when they are looked at again, by the monotonic clock."""
        self._machines: dict[str, str] = {}
        """Of the nodes that have run something, by id."""
        self._fleets_started = 0
        self._is_ending = False
        """Its runs are being told as lost; nothing is submitted to it."""
        self._gone = ""
        """Why there is no fleet any more, nor a new one to be had."""
        self._fleet = self._new_fleet()
        self.left_out = LeftOut()
        config.stash[FLEET] = self

    def run(self) -> None:
        try:
            self._start_fleet()
            with interrupts.held():
                self._conduct()
        except BaseException:
            self._stop_all()
            raise
        finally:
            self._fleet.close()

    def _conduct(self) -> None:
        """Until all entries have run. Ctrl-C takes effect between two events."""
        while self._waiting or self._flights or self._elsewhere or self._silent:
            interrupts.raise_held_back()
            self._submit_what_there_is_room_for()
            self._finish_failed()
            if self._gone:
                self._give_up_silent()
                continue
            may_wait = not self._failed and (self._flights or self._silent)
            self._take(self._fleet.next_event(_TICK_S if may_wait else 0.0))
            self._look_at_the_clock()

    def _new_fleet(self) -> Fleet:
        options, directory = self._options, self._config.stash[BENCHMARKS].session_dir
        most: dict[str, float] = {}
        for flight in chain.from_iterable(self._waiting.values()):
            for name, amount in flight.wanted.resources.items():
                most[name] = max(amount, most.get(name, 0.0))
        settings = FleetSettings(options.address, options.cpus, options.gpus, most)
        return Fleet(settings, workbench(self._config), directory / "fleet")

    def _start_fleet(self) -> None:
        self._fleets_started += 1
        try:
            self._config.stash[BENCHMARKS].session_dir.joinpath("fleet").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BenchError(f"results cannot be written: {error}") from None
        with interrupts.open_to_ctrl_c():
            self._fleet.start(self._request())
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and terminal.verbosity >= 0:
            terminal.write_line(f"Fleet: {', '.join(map(str, self._fleet.nodes))}")
            for note in self._fleet.notes:
                terminal.write_line(f"    {note}")

    def _request(self) -> Request:
        """For a fleet of this machine there is nothing to send."""
        if self._options.address == LOCAL:
            return Request()
        benchmarks = self._config.stash[BENCHMARKS]
        plans = (plan_of(flight.entry, benchmarks) for flight in chain.from_iterable(self._waiting.values()))
        own = pack(plans, benchmarks.session_dir)
        return Request(own, more_nodes_may_come=bool(self._options.wait_s))

    def _wait(self, flight: Flight) -> None:
        """Goes first among those that want the same; the last of a list is the first to go."""
        self._waiting.setdefault(str(flight.wanted), []).append(flight)

    def _submit_what_there_is_room_for(self) -> None:
        """Of each kind of slice as many wait in Ray's queue as the fleet holds: so Ray always has what fits."""
        for kind, waiting in list(self._waiting.items()):
            while waiting and self._has_room(kind, waiting[-1].wanted):
                self._submit(waiting.pop())
            if not waiting:
                del self._waiting[kind]

    def _has_room(self, kind: str, wanted: Slice) -> bool:
        if self._is_ending:
            return False
        if self._options.max_runs is not None and len(self._flights) >= self._options.max_runs:
            return False
        queued = sum(flight.where is None and str(flight.wanted) == kind for flight in self._flights.values())
        least = _QUEUED_FOR_NODES_TO_COME if self._options.wait_s else 1
        return queued < max(least, capacity(wanted, self._fleet.nodes))

    def _submit(self, flight: Flight) -> None:
        if flight.attempt == 1 and claim(flight.item, flight.entry):
            if not self._gone and silence_of(self._config, flight.entry):
                self._silent[flight] = 0.0
            else:
                self._elsewhere.append(flight)
            return
        plan = plan_of(flight.entry, self._config.stash[BENCHMARKS])
        plan = with_hooks(flight.item, replace(plan, attempt=flight.attempt, uid=uuid.uuid4().hex))
        flight.plan, flight.submitted = plan, datetime.now(UTC)
        self._flights[plan.uid] = flight
        if plan.problems:
            self._fail(flight, "; ".join(plan.problems), Cause.CONFIGURATION)
        elif self._gone:
            self._fail(flight, self._gone, Cause.CLUSTER)
        elif self._is_homeless(flight) and not self._options.wait_s:
            self._fail(flight, self._too_large(flight), Cause.CONFIGURATION)
        else:
            self._fleet.submit(self._order(flight, plan))

    def _order(self, flight: Flight, plan: Plan) -> Order:
        nodes = self._fleet.nodes
        barred = flight.not_on | self.left_out.nodes
        if not any(fits(flight.wanted, node) for node in nodes if node.id not in barred):
            barred = self.left_out.nodes  # rather where it has failed than nowhere
        shares = flight.wanted.num_gpus % 1 != 0
        known = frozenset(node.id for node in nodes)
        return Order(plan, flight.wanted, barred & known, flight.only_on, shares, self.left_out.gpus)

    def _is_homeless(self, flight: Flight) -> bool:
        nodes = [node for node in self._fleet.nodes if node.id not in self.left_out.nodes]
        return not any(fits(flight.wanted, node) for node in nodes if not flight.only_on or node.id in flight.only_on)

    def _too_large(self, flight: Flight) -> str:
        if flight.only_on:
            return "the machine it ran on is gone"
        node = largest([node for node in self._fleet.nodes if node.id not in self.left_out.nodes])
        there = f"the largest node, {node}, has less" if node else "there is no node at all"
        return f"it asks for {flight.wanted}; {there}"

    def _take(self, event: Event | None) -> None:
        match event:
            case Started(uid, where) if uid in self._flights:
                self._begin(self._flights[uid], where)
            case Ended(uid, result, where) if uid in self._flights:
                self._begin(self._flights[uid], where)
                self._finish(self._flights[uid], result)
            case Lost(uid, reason, with_all=with_all) if uid in self._flights:
                self._is_ending = with_all
                if with_all and self._flights[uid].may_wait_again:
                    self._wait_again(self._flights[uid])
                else:
                    self._lose(self._flights[uid], reason)
            case Nodes():
                self._look_for_homeless()
            case Broken(reason):
                self._start_anew(reason)
            case Told(uid, status) if uid in self._flights:
                self._flights[uid].status = status
                if (report := self._report()) is not None:
                    report.note_status(self._flights[uid].item.nodeid, status)

    def _begin(self, flight: Flight, where: Where) -> None:
        assert flight.plan
        if flight.where is not None:
            return
        where = replace(where, name=self._fleet.name_of(where))
        flight.where, flight.began = where, datetime.now(UTC)
        flight.must_end_by = time.monotonic() + backstop_s(flight.entry)
        self._machines[where.node] = where.machine_id
        note_start(flight.item, flight.entry, flight.plan, where)
        if (report := self._report()) is not None:
            report.note_started(flight.item.nodeid, str(where), where.gpus)

    def _report(self) -> TerminalReport | None:
        found: TerminalReport | None = self._config.pluginmanager.get_plugin(REPORT)
        return found

    def _finish(self, flight: Flight, result: RunResult) -> None:
        """The last result of an entry is judged by its item; after an `error` there may be another attempt."""
        assert flight.plan
        del self._flights[flight.plan.uid]
        if result.verdict is Verdict.ERROR and flight.where is not None:
            self._leave_out(flight.entry, flight.where, result.cause)
        flight.item.ihook.pytest_bench_run_finished(item=flight.item, result=result)
        decision = attempts_of(flight.item, flight.entry).take(
            result,
            is_hopeless=bool(flight.plan.problems or self._gone),
            may_confirm=bool(self._like(flight.where)),
        )
        match decision.next:
            case Next.RETRY:
                self._try_again(flight, (result.error or "").partition("\n")[0])
            case Next.CONFIRM:
                self._measure_again(flight, result, decision.reason)
            case _:
                self._judge(flight, result)

    def _judge(self, flight: Flight, result: RunResult) -> None:
        self._submit_what_there_is_room_for()  # before the item takes its time
        flight.item.stash[ARRIVED] = result
        try:
            self._items.run(flight.item)
        finally:
            release(flight.item, flight.entry)

    def _like(self, where: Where | None) -> frozenset[str]:
        """The node itself, where it lives and is not left out; else those known to be machines like it."""
        nodes = {node.id for node in self._fleet.nodes} - self.left_out.nodes
        if where is None or where.node in nodes:
            return frozenset({where.node} if where else ())
        return frozenset(node for node in nodes if self._machines.get(node) == where.machine_id)

    def _measure_again(self, flight: Flight, result: RunResult, reason: str) -> None:
        if (report := self._report()) is not None:
            report.note_waiting(flight.item.nodeid, f"attempt {flight.attempt}: {reason}")
        like, attempt = self._like(flight.where), flight.attempt + 1
        again = Flight(flight.item, flight.entry, flight.wanted, attempt, only_on=like, measured=result)
        self._wait(again)

    def _not_measured_again(self, flight: Flight, reason: str) -> None:
        """Fall back to the run before."""
        assert flight.plan
        del self._flights[flight.plan.uid]
        self._judge(flight, attempts_of(flight.item, flight.entry).note_not_measured_again(reason))

    def _try_again(self, flight: Flight, error: str) -> None:
        """On another node, where there is one."""
        if (report := self._report()) is not None:
            report.note_waiting(flight.item.nodeid, f"attempt {flight.attempt}: {error}")
        failed_on = {flight.where.node} if flight.where else set()
        not_on, again = flight.not_on | failed_on, flight.attempt + 1
        self._wait(Flight(flight.item, flight.entry, flight.wanted, again, not_on, flight.only_on, flight.measured))

    def _wait_again(self, flight: Flight) -> None:
        """It was in the queue of a cluster that is gone. It stays claimed, which only first attempts are."""
        assert flight.plan
        del self._flights[flight.plan.uid]
        self._wait(Flight(flight.item, flight.entry, flight.wanted, flight.attempt, flight.not_on))

    def _fail(self, flight: Flight, error: str, cause: Cause) -> None:
        """It will never run. Its item's turn comes with the next look at what has happened."""
        self._failed.append((flight, error, cause))

    def _finish_failed(self) -> None:
        while self._elsewhere:
            self._items.run(self._elsewhere.popleft().item)
        while self._failed:
            flight, error, cause = self._failed.popleft()
            assert flight.plan
            if flight.measured is not None:
                self._not_measured_again(flight, error)
                continue
            note_start(flight.item, flight.entry, flight.plan)
            self._finish(flight, failed_before_it_began(flight.plan, error, cause))

    def _lose(self, flight: Flight, reason: str) -> None:
        assert flight.plan
        if flight.where is None:
            self._fail(flight, reason, Cause.NODE)
            return
        began = flight.began or flight.submitted
        error = _TOO_LATE.format(seconds=backstop_s(flight.entry)) if flight.is_late else lost_at(flight.where, reason)
        host = flight.where.host
        self._finish(flight, answer_for(flight.plan, Verdict.ERROR, error, Cause.NODE, began, host))

    def _leave_out(self, entry: Entry, where: Where, cause: Cause | None) -> None:
        if cause is None or cause in (Cause.CONFIGURATION, Cause.DATASET):
            return
        for gpu in self.left_out.note(entry.id, where, cause, self._fleet.nodes):
            self._fleet.reserve(where.node, gpu)

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        for flight in [flight for flight, look_at in self._silent.items() if look_at <= now]:
            self._look_for_a_sign(flight, now)
        for uid, flight in list(self._flights.items()):
            if flight.must_end_by < now and not flight.is_late:
                flight.is_late = True
                self._fleet.kill(uid)
        if self._options.wait_s:
            self._look_for_homeless()

    def _look_for_a_sign(self, flight: Flight, now: float) -> None:
        """Once it is known whether a claim of another machine holds, the entry's turn comes again."""
        silence = silence_of(self._config, flight.entry)
        if silence is None or silence.left_s <= 0:
            del self._silent[flight]
            self._wait(flight)
            return
        if not self._silent[flight] and not self._flights and (report := self._report()) is not None:
            report.say(f"{flight.entry.id} is {in_words(silence)}")
        self._silent[flight] = now + _LOOKS_FOR_A_SIGN_EVERY_S

    def _give_up_silent(self) -> None:
        """Without a fleet nothing is taken over."""
        self._elsewhere.extend(self._silent)
        self._silent.clear()

    def _look_for_homeless(self) -> None:
        """Runs in the queue that no node is large enough for, at the start or since a node has gone."""
        now = time.monotonic()
        for uid, flight in list(self._flights.items()):
            if flight.where is not None or not self._is_homeless(flight):
                flight.homeless_since = None
            elif now - (flight.homeless_since or now) >= self._options.wait_s:
                self._fleet.stop(uid)
                self._fail(flight, self._too_large(flight), Cause.CONFIGURATION)
            else:
                flight.homeless_since = flight.homeless_since or now

    def _start_anew(self, reason: str) -> None:
        """All runs under way were lost before; those that wait still can run, where there is a fleet to be had."""
        self._fleet.close()
        self._is_ending = False
        if not self._waiting and not self._silent:
            return
        if self._fleets_started >= _MOST_FLEETS:
            self._gone = f"the fleet ended {_MOST_FLEETS} times; {reason}"
            return
        self.left_out = LeftOut()
        self._fleet = self._new_fleet()
        try:
            self._start_fleet()
        except ClusterError as error:
            self._gone = str(error)

    def _stop_all(self) -> None:
        """Ctrl-C, -x, or a mistake of ours: what runs is put in order and recorded as interrupted."""
        for uid in self._flights:
            self._fleet.stop(uid)
        deadline = time.monotonic() + _STOPS_WITHIN_S
        try:
            while self._flights and time.monotonic() < deadline:
                if not self._take_stopped(self._fleet.next_event(_TICK_S)):
                    break
        finally:
            for flight in list(self._flights.values()):
                self._note_stopped(flight, None)

    def _take_stopped(self, event: Event | None) -> bool:
        """Whether more may come."""
        match event:
            case Started(uid, where) if uid in self._flights:
                self._begin(self._flights[uid], where)
            case Ended(uid, result, where) if uid in self._flights:
                self._begin(self._flights[uid], where)
                self._note_stopped(self._flights[uid], result)
            case Lost(uid) if uid in self._flights:
                self._note_stopped(self._flights[uid], None)
            case Broken():
                return False
        return True

    def _note_stopped(self, flight: Flight, result: RunResult | None) -> None:
        """What never left the queue leaves no trace."""
        assert flight.plan
        del self._flights[flight.plan.uid]
        if flight.where is not None:
            result = result or interrupted(flight)
            error = result.error or "stopped from outside"
            note_interrupted(flight.item, flight.entry, replace(result, verdict=Verdict.INTERRUPTED, error=error))
        release(flight.item, flight.entry)
