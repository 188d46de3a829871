"""The runner of a fleet answers each order once, whatever happens to its nodes; this fleet says what a test wants."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import cast

import pytest

from curator_bench.errors import ClusterError
from curator_bench.fleet import messages
from curator_bench.fleet.fleet import Fleet
from curator_bench.fleet.messages import Broken, Lost, Node, Nodes, Request
from curator_bench.runner.fleet_runner import FleetRunner
from curator_bench.runner.runner import Event, Order, Refused
from curator_bench.values import Began, Cause, Ended, Plan, RunResult, Slice, Verdict, Where

STAMP = "2026-01-23T14:30:00+00:00"


def node(name: str, **resources: float) -> Node:
    return Node(name, name, "192.0.2.1", resources or {"CPU": 1.0})


def where(name: str, machine: str = "") -> Where:
    return Where(name, name, machine_id=machine)


class ScriptedFleet:
    """Says what a test has it say, and keeps what it is told."""

    def __init__(self, *nodes: Node, refuses: str = "") -> None:
        self.nodes, self.notes = nodes, list[str]()
        self.refuses = refuses
        self.events: deque[messages.Event] = deque()
        self.submitted: list[messages.Order] = []
        self.told: list[tuple[str, str]] = []

    def start(self, request: Request) -> None:
        if self.refuses:
            raise ClusterError(self.refuses)

    def submit(self, order: messages.Order) -> None:
        self.submitted.append(order)

    def stop(self, uid: str) -> None:
        self.told.append(("stop", uid))

    def kill(self, uid: str) -> None:
        self.told.append(("kill", uid))

    def reserve(self, node: str, gpu: str) -> None:
        self.told.append((node, gpu))

    def name_of(self, where: Where) -> str:
        return where.host

    def next_event(self, within_s: float) -> messages.Event | None:
        event = self.events.popleft() if self.events else None
        if isinstance(event, Nodes):
            self.nodes = event.nodes
        return event

    def close(self) -> None: ...


def runner_of(*fleets: ScriptedFleet, wait_s: float = 0.0, max_runs: int | None = None) -> FleetRunner:
    """One that starts these fleets, one after the other."""
    left = iter(fleets)
    runner = FleetRunner(lambda: cast(Fleet, next(left)), Request, max_runs=max_runs, wait_s=wait_s)
    runner.start()
    return runner


def order(uid: str, needs: Slice | None = None, **more: object) -> Order:
    plan = Plan(uid, "s", "/s", f"/s/{uid}", "python", "x.py", (), "/", uid)
    return Order(plan, needs or Slice(), **more)  # type: ignore[arg-type]


def ended(uid: str, place: Where, verdict: Verdict = Verdict.PASSED, cause: Cause | None = None) -> Ended:
    return Ended(uid, RunResult(uid, verdict, STAMP, STAMP, 1.0, cause=cause), place)


def events_of(runner: FleetRunner, most: int = 20) -> list[Event]:
    return [event for event in (runner.next_event(0.0) for _ in range(most)) if event is not None]


def measured_on(runner: FleetRunner, fleet: ScriptedFleet, places: Iterable[Where]) -> None:
    for place in places:
        runner.submit(order(f"on {place.node}"))
        fleet.events += [Began(f"on {place.node}", place), ended(f"on {place.node}", place)]
    events_of(runner)


def test_a_run_is_told_to_begin_and_to_end() -> None:
    fleet = ScriptedFleet(node("a"))
    runner = runner_of(fleet)
    runner.submit(order("one"))
    fleet.events += [Began("one", where("a")), ended("one", where("a"))]
    began, end = events_of(runner)
    assert isinstance(began, Began)
    assert isinstance(end, Ended)
    assert (began.uid, end.result.verdict) == ("one", Verdict.PASSED)


def test_of_each_size_as_many_wait_as_the_fleet_holds_and_never_more_runs_than_asked_for() -> None:
    fleet = ScriptedFleet(node("a", CPU=2.0), node("b", CPU=2.0))
    runner, small, large = runner_of(fleet), Slice(1), Slice(2)
    for number in range(4):
        assert runner.has_room(small)
        runner.submit(order(f"small{number}", small))
    assert not runner.has_room(small)
    assert runner.has_room(large)
    fleet.events.append(Began("small0", where("a")))
    events_of(runner)
    assert runner.has_room(small)
    runner.submit(order("small4", small))
    assert not runner.has_room(small)
    fleet.events.append(Nodes((*fleet.nodes, node("c", CPU=2.0))))
    events_of(runner)
    assert runner.has_room(small)
    few = runner_of(ScriptedFleet(node("a", CPU=8.0)), max_runs=1)
    few.submit(order("one"))
    assert not few.has_room(Slice())


def test_what_is_measured_again_is_measured_on_the_same_node_else_on_one_like_it() -> None:
    fleet = ScriptedFleet(*map(node, ("first", "second", "third", "unknown")))
    runner = runner_of(fleet)
    measured_on(runner, fleet, [where("first", "big"), where("second", "small"), where("third", "big")])
    runner.submit(order("again", like=where("first", "big")))
    assert fleet.submitted[-1].only_on == {"first"}
    fleet.events.append(Nodes(tuple(map(node, ("second", "third", "unknown")))))
    events_of(runner)
    assert runner.can_repeat(where("first", "big"))
    runner.submit(order("once more", like=where("first", "big")))
    assert fleet.submitted[-1].only_on == {"third"}
    fleet.events.append(Nodes(tuple(map(node, ("second", "unknown")))))
    events_of(runner)
    assert not runner.can_repeat(where("first", "big"))
    runner.submit(order("too late", like=where("first", "big")))
    (refused,) = events_of(runner)
    assert isinstance(refused, Refused)
    assert refused.reason == "the machine it ran on is gone"


def test_what_waited_in_the_queue_of_a_cluster_that_is_gone_runs_in_the_next_one() -> None:
    first, second = ScriptedFleet(node("a")), ScriptedFleet(node("b"))
    runner = runner_of(first, second)
    for uid in ("runs", "waits", "confirms"):
        runner.submit(order(uid, like=where("a") if uid == "confirms" else None))
    first.events.append(Began("runs", where("a")))
    first.events += [Lost(uid, "the cluster is gone", with_all=True) for uid in ("runs", "waits", "confirms")]
    first.events.append(Broken("the cluster is gone"))
    began, lost, refused = events_of(runner)
    assert isinstance(began, Began)
    assert isinstance(lost, Ended)
    assert (lost.result.verdict, lost.result.cause) == (Verdict.ERROR, Cause.NODE)
    assert isinstance(refused, Refused)
    assert refused.uid == "confirms"
    assert [one.uid for one in second.submitted] == ["waits"]


def test_a_fleet_that_ends_again_and_again_is_not_started_for_ever() -> None:
    fleets = [ScriptedFleet(node("a")) for _ in range(3)]
    runner = runner_of(*fleets)
    runner.submit(order("one"))
    for fleet in fleets:
        fleet.events += [Lost("one", "gone", with_all=True), Broken("gone")]
    (refused,) = events_of(runner)
    assert isinstance(refused, Refused)
    assert refused.is_final
    assert "the fleet ended 3 times" in refused.reason
    assert runner.has_room(Slice())
    runner.submit(order("two"))
    (refused,) = events_of(runner)
    assert isinstance(refused, Refused)


def test_without_a_new_fleet_to_be_had_what_is_left_says_why() -> None:
    first = ScriptedFleet(node("a"))
    runner = runner_of(first, ScriptedFleet(refuses="no cluster answers"))
    runner.submit(order("one"))
    first.events += [Lost("one", "gone", with_all=True), Broken("gone")]
    (refused,) = events_of(runner)
    assert isinstance(refused, Refused)
    assert refused.reason == "no cluster answers"


def test_after_a_stop_no_fleet_is_started_anew() -> None:
    first = ScriptedFleet(node("a"))
    runner = runner_of(first)
    runner.submit(order("one"))
    runner.stop("one")
    first.events += [Lost("one", "gone", with_all=True), Broken("gone")]
    assert isinstance(events_of(runner)[0], Refused)


def test_an_entry_that_no_node_is_large_enough_for_is_refused_and_the_largest_named() -> None:
    runner = runner_of(ScriptedFleet(node("a", CPU=2.0)))
    runner.submit(order("huge", Slice(500)))
    (refused,) = events_of(runner)
    assert isinstance(refused, Refused)
    assert refused.reason == "it asks for CPU: 500; the largest node, a (CPU: 2), has less"
    assert not refused.is_final


def test_a_run_that_does_not_answer_in_its_time_is_ended() -> None:
    fleet = ScriptedFleet(node("a"))
    runner = runner_of(fleet)
    runner.submit(order("slow", longest_s=0.0))
    fleet.events.append(Began("slow", where("a")))
    events_of(runner)
    assert ("kill", "slow") in fleet.told
    fleet.events.append(Lost("slow", "its worker died"))
    (lost,) = events_of(runner)
    assert isinstance(lost, Ended)
    assert "no answer within 0 s" in lost.result.error


@pytest.mark.parametrize(("cause", "is_quarantine"), [(Cause.NODE, True), (Cause.DATASET, False)])
def test_a_node_on_which_two_entries_met_errors_of_the_machine_is_quarantine(cause: Cause, is_quarantine: bool) -> None:
    fleet = ScriptedFleet(node("a"), node("b"))
    runner = runner_of(fleet)
    for uid in ("one", "two"):
        runner.submit(order(uid))
        fleet.events += [Began(uid, where("a")), ended(uid, where("a"), Verdict.ERROR, cause)]
    events_of(runner)
    assert (runner.quarantine.nodes == {"a"}) is is_quarantine
    runner.submit(order("three"))
    assert fleet.submitted[-1].not_on == ({"a"} if is_quarantine else set())
