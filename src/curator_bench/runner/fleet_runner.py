"""The runner of a fleet: sends orders to its nodes, and turns all that may happen there into one answer per order."""

from __future__ import annotations

import heapq
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from curator_bench.errors import ClusterError
from curator_bench.execution.failed import answer_for
from curator_bench.fleet import messages
from curator_bench.fleet.fleet import Fleet
from curator_bench.fleet.messages import Broken, Lost, Node, Nodes, Request
from curator_bench.fleet.quarantine import Quarantine
from curator_bench.fleet.slices import capacity, fits, largest
from curator_bench.runner.runner import Event, Order, Refused
from curator_bench.values import Began, Cause, Ended, Progressed, RunResult, Slice, Verdict, Where

_LOOKS_EVERY_S = 0.5
_QUEUED_FOR_NODES_TO_COME = 64
"""The longest queue while nodes may join: a cluster that scales itself starts nodes for what is queued."""
_MOST_FLEETS = 3
"""The most fleets in a session. A fleet that ends during its runs is started again, but not for ever."""
_TOO_LATE = "no answer within {seconds:.0f} s, the longest time it may take; its worker was ended"


@dataclass(slots=True, eq=False)
class _Run:
    order: Order
    kind: str
    submitted: datetime = field(default_factory=lambda: datetime.now(UTC))
    where: Where | None = None
    """None while the run waits in Ray's queue."""
    began: datetime | None = None
    fits_nowhere_since: float | None = None
    """The time since when no node is large enough for the run."""
    is_late: bool = False


class FleetRunner:
    """Runs orders in a fleet.

    It starts the fleet again if that ends, and leaves out nodes and GPUs on which entries have errors.
    """

    def __init__(
        self,
        new_fleet: Callable[[], Fleet],
        request: Callable[[], Request],
        *,
        max_runs: int | None = None,
        wait_s: float = 0.0,
        machine: str | None = None,
    ) -> None:
        """`machine` names the kind of all nodes; without it, each node tells its own."""
        self._machine = machine
        self._new_fleet, self._request = new_fleet, request
        self._max_runs, self._wait_s = max_runs, wait_s
        self.quarantine = Quarantine()
        self.gone = ""
        """The reason why there is no fleet, nor can be."""
        self._fleet = new_fleet()
        self._fleets_started = 0
        self._is_ending = False
        """True while the runs of a fleet that ended are reported as lost. Nothing is submitted then."""
        self._ended_for = ""
        """The reason why the last fleet ended. The next run starts another one."""
        self._runs: dict[str, _Run] = {}
        self._queued: Counter[str] = Counter()
        """The number of runs in Ray's queue by their needs."""
        self._capacities: dict[str, int] = {}
        self._events: deque[Event] = deque()
        self._deadlines: list[tuple[float, str]] = []
        self._machines: dict[str, str] = {}
        """The machine ids of nodes that have run something, by node id."""
        self._looks_at = 0.0
        self._is_stopping = False

    def start(self) -> Fleet:
        """Start the fleet. Raises ClusterError if that fails."""
        self._fleets_started += 1
        self._fleet.start(self._request())
        return self._fleet

    def close(self) -> None:
        self._fleet.close()

    def has_room(self, needs: Slice) -> bool:
        """True if a run may be submitted.

        Ray's queue holds as many runs of each size as the fleet can run, so a free place is filled at once.
        """
        if self.gone:
            return not self._events
        if self._is_ending or (self._max_runs is not None and len(self._runs) >= self._max_runs):
            return False
        least = _QUEUED_FOR_NODES_TO_COME if self._wait_s else 1
        return self._queued[str(needs)] < max(least, self._capacity(needs))

    def submit(self, order: Order) -> None:
        run = _Run(order, str(order.needs))
        self._runs[order.uid] = run
        self._queued[run.kind] += 1
        if order.plan.problems:
            self._refuse(run, "; ".join(order.plan.problems), Cause.CONFIGURATION, is_final=True)
            return
        if self._ended_for:
            self._start_anew()
        self._send(run)

    def next_event(self, within_s: float) -> Event | None:
        if self._events:
            return self._events.popleft()
        if self.gone:
            return None
        self._look_at_the_clock()
        if not self._ended_for and (event := self._fleet.next_event(within_s)) is not None:
            self._take(event)
        elif self._ended_for:
            time.sleep(within_s)
        return self._events.popleft() if self._events else None

    def stop(self, uid: str) -> None:
        """Stop a run. No fleet is started again afterwards."""
        self._is_stopping = True
        if uid in self._runs:
            self._fleet.stop(uid)

    def can_repeat(self, where: Where | None) -> bool:
        return bool(self._like(where))

    def _send(self, run: _Run) -> None:
        if self.gone:
            self._refuse(run, self.gone, Cause.CLUSTER, is_final=True)
        elif self._fits_nowhere(run.order) and not self._wait_s:
            self._refuse(run, self._too_large(run.order), Cause.CONFIGURATION)
        else:
            self._fleet.submit(self._addressed(run.order))

    def _addressed(self, order: Order) -> messages.Order:
        nodes = self._fleet.nodes
        barred = order.not_on | self.quarantine.nodes
        if not any(fits(order.needs, node) for node in nodes if node.id not in barred):
            barred = self.quarantine.nodes  # a node on which it failed is better than none
        known = frozenset(node.id for node in nodes) if barred else barred
        only_on = self._like(order.like) if order.like else frozenset[str]()
        shares = order.needs.num_gpus % 1 != 0
        return messages.Order(order.plan, order.needs, barred & known, only_on, shares, self.quarantine.gpus)

    def _like(self, where: Where | None) -> frozenset[str]:
        """Return the node itself if it is alive and not quarantined, else the nodes of the same machine id."""
        nodes = {node.id for node in self._fleet.nodes} - self.quarantine.nodes
        if where is None or where.node in nodes:
            return frozenset({where.node} if where else ())
        return frozenset(node for node in nodes if self._machines.get(node) == where.machine_id)

    def _capacity(self, needs: Slice) -> int:
        kind = str(needs)
        if kind not in self._capacities:
            self._capacities[kind] = capacity(needs, self._fleet.nodes)
        return self._capacities[kind]

    def _suitable_nodes(self, order: Order) -> Iterator[Node]:
        """Yield the nodes the order may run on, whatever their size."""
        like, quarantine = self._like(order.like) if order.like else None, self.quarantine.nodes
        for node in self._fleet.nodes:
            if node.id not in quarantine and (like is None or node.id in like):
                yield node

    def _fits_nowhere(self, order: Order) -> bool:
        return not any(fits(order.needs, node) for node in self._suitable_nodes(order))

    def _too_large(self, order: Order) -> str:
        if order.like is not None:
            return "the machine it ran on is gone"
        node = largest(list(self._suitable_nodes(order)))
        there = f"the largest node, {node}, has less" if node else "there is no node at all"
        return f"it asks for {order.needs}; {there}"

    def _take(self, event: messages.Event) -> None:
        match event:
            case Began(uid, Where() as where) if uid in self._runs:
                self._begin(self._runs[uid], where)
            case Ended(uid, result, Where() as where) if uid in self._runs:
                self._begin(self._runs[uid], where)
                self._answer(self._runs[uid], result)
            case Lost(uid, reason, with_all=with_all) if uid in self._runs:
                self._is_ending = with_all
                self._lose(self._runs[uid], reason, with_all=with_all)
            case Progressed(uid) if uid in self._runs:
                self._events.append(event)
            case Nodes():
                self._capacities.clear()
                self._refuse_too_large()
            case Broken(reason):
                self._end(reason)

    def _begin(self, run: _Run, where: Where) -> None:
        if run.where is not None:
            return
        kind = self._machine or where.machine_id
        where = replace(where, name=self._fleet.name_of(where), machine_id=kind)
        run.where, run.began = where, datetime.now(UTC)
        self._queued[run.kind] -= 1
        self._machines[where.node] = where.machine_id
        if math.isfinite(run.order.longest_s):
            heapq.heappush(self._deadlines, (time.monotonic() + run.order.longest_s, run.order.uid))
        self._events.append(Began(run.order.uid, where))

    def _answer(self, run: _Run, result: RunResult) -> None:
        del self._runs[run.order.uid]
        if run.where is not None and result.verdict is Verdict.ERROR:
            self._leave_out(result.name, run.where, result.cause)
        self._events.append(Ended(run.order.uid, result, run.where))

    def _refuse(self, run: _Run, reason: str, cause: Cause, *, is_final: bool = False) -> None:
        del self._runs[run.order.uid]
        self._queued[run.kind] -= 1
        self._events.append(Refused(run.order.uid, reason, cause, is_final))

    def _lose(self, run: _Run, reason: str, *, with_all: bool) -> None:
        """Answer for a lost run. If it only waited in the queue of a fleet that ended, it waits for the next fleet."""
        if run.where is not None:
            late = _TOO_LATE.format(seconds=run.order.longest_s)
            error = late if run.is_late else _lost_at(run.where, reason)
            began = run.began or run.submitted
            self._answer(run, answer_for(run.order.plan, Verdict.ERROR, error, Cause.NODE, began, run.where.host))
        elif not with_all or run.order.like is not None:
            self._refuse(run, reason, Cause.NODE)

    def _leave_out(self, entry: str, where: Where, cause: Cause | None) -> None:
        if cause is None or cause in (Cause.CONFIGURATION, Cause.DATASET):
            return
        for gpu in self.quarantine.note(entry, where, cause, self._fleet.nodes):
            self._fleet.reserve(where.node, gpu)

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        while self._deadlines and self._deadlines[0][0] < now:
            _, uid = heapq.heappop(self._deadlines)
            if uid in self._runs:
                self._runs[uid].is_late = True
                self._fleet.kill(uid)
        if self._wait_s and self._looks_at <= now:
            self._looks_at = now + _LOOKS_EVERY_S
            self._refuse_too_large()

    def _refuse_too_large(self) -> None:
        """Refuse queued runs for which no node has been large enough for `wait_s`."""
        now = time.monotonic()
        for run in [run for run in self._runs.values() if run.where is None]:
            if not self._fits_nowhere(run.order):
                run.fits_nowhere_since = None
                continue
            run.fits_nowhere_since = run.fits_nowhere_since or now
            if now - run.fits_nowhere_since >= self._wait_s:
                self._fleet.stop(run.order.uid)
                self._refuse(run, self._too_large(run.order), Cause.CONFIGURATION)

    def _end(self, reason: str) -> None:
        """Handle the end of the fleet. Runs in its queue go to the next fleet; the others were reported as lost."""
        self._fleet.close()
        self._is_ending, self._ended_for = False, reason
        self._capacities.clear()
        if not self._runs:
            return
        self._start_anew()
        for run in list(self._runs.values()):
            self._send(run)

    def _start_anew(self) -> None:
        reason, self._ended_for = self._ended_for, ""
        if self._is_stopping:
            self.gone = reason
            return
        if self._fleets_started >= _MOST_FLEETS:
            self.gone = f"the fleet ended {_MOST_FLEETS} times; {reason}"
            return
        self.quarantine = Quarantine()
        self._fleet = self._new_fleet()
        try:
            self.start()
        except ClusterError as error:
            self.gone = str(error)


def _lost_at(where: Where, reason: str) -> str:
    gpus = f", GPU {','.join(where.gpus)}" if where.gpus else ""
    return f"its worker on {where} (process {where.pid}{gpus}) ended during the run: {reason}"
