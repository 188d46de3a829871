"""A fleet in simulated time. It conducts thousands of runs on thousands of nodes in seconds."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from curator_bench.execution.failed import answer_for
from curator_bench.runner.runner import Event, Order, Refused
from curator_bench.values import Began, Cause, Ended, RunResult, Slice, Verdict, Where

Script = Callable[[Order, Where], RunResult]
"""A function that returns the result of a run on a node. The run ends when its duration has passed."""


@dataclass(slots=True)
class _Node:
    name: str
    free: int
    queue: deque[Order] = field(default_factory=deque)
    """Runs that must run on this node."""
    under_way: dict[str, Order] = field(default_factory=dict)

    @property
    def where(self) -> Where:
        return Where(self.name, self.name, machine_id="simulated")


class SimulatedRunner:
    """Nodes with a number of slots each. A run takes a slot, and as many runs may wait as there are slots."""

    def __init__(self, nodes: int, slots: int, script: Script) -> None:
        self.now = 0.0
        """Simulated seconds since the start."""
        self.refuse_next = ""
        """The reason to refuse the next order; empty to accept it."""
        self._script = script
        self._nodes = {name: _Node(name, slots) for name in (f"node{number}" for number in range(nodes))}
        self._free = deque(name for _ in range(slots) for name in self._nodes)
        """A node name for each slot that may be free."""
        self._room = nodes * slots
        self._queue: deque[Order] = deque()
        self._unanswered: dict[str, _Node | None] = {}
        self._happens: list[tuple[float, int, Event]] = []
        self._count = itertools.count()

    def has_room(self, needs: Slice) -> bool:
        return len(self._queue) < self._room

    def submit(self, order: Order) -> None:
        self._unanswered[order.uid] = None
        if self.refuse_next:
            self._note(Refused(order.uid, self.refuse_next, Cause.CONFIGURATION))
            self.refuse_next = ""
            return
        node = self._nodes.get(order.like.node) if order.like else None
        if node is None:
            self._queue.append(order)
        elif node.free:
            self._start(order, node)
        else:
            node.queue.append(order)
        self._fill()

    def next_event(self, within_s: float) -> Event | None:
        while self._happens:
            self.now, _, event = heapq.heappop(self._happens)
            if event.uid not in self._unanswered:
                continue
            if not isinstance(event, Began):
                self._answered(event.uid)
            return event
        return None

    def stop(self, uid: str) -> None:
        self._note(Refused(uid, "stopped from outside", Cause.CONFIGURATION))

    def can_repeat(self, where: Where | None) -> bool:
        return where is None or where.node in self._nodes

    def lose(self, name: str) -> None:
        """Let a node die. Its runs end in an `error`."""
        node = self._nodes.pop(name)
        for uid, order in node.under_way.items():
            died = answer_for(order.plan, Verdict.ERROR, f"{name} died", Cause.NODE, datetime.now(UTC), name)
            self._note(Ended(uid, died, node.where))
        for order in node.queue:
            self._note(Refused(order.uid, f"{name} died", Cause.NODE))

    def _fill(self) -> None:
        while self._queue and self._free:
            node = self._nodes.get(self._free.popleft())
            if node is not None and node.free:
                self._start(self._queue.popleft(), node)

    def _start(self, order: Order, node: _Node) -> None:
        node.free -= 1
        node.under_way[order.uid] = order
        self._unanswered[order.uid] = node
        result = self._script(order, node.where)
        self._note(Began(order.uid, node.where))
        self._note(Ended(order.uid, result, node.where), result.duration_s)

    def _answered(self, uid: str) -> None:
        """Free a run's slot. The next run on it is one that must be on this node, or else the next in the queue."""
        node = self._unanswered.pop(uid)
        if node is None or node.name not in self._nodes:
            return
        del node.under_way[uid]
        node.free += 1
        if node.queue:
            self._start(node.queue.popleft(), node)
        else:
            self._free.append(node.name)
            self._fill()

    def _note(self, event: Event, after_s: float = 0.0) -> None:
        heapq.heappush(self._happens, (self.now + after_s, next(self._count), event))
