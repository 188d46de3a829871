"""The runner of this process. It carries out one run at a time, within `next_event`."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime

from curator_bench import interrupts
from curator_bench.execution.failed import answer_for
from curator_bench.execution.run import Interrupted, run_entry
from curator_bench.execution.workbench import Workbench
from curator_bench.runner.runner import Event, Order, Refused
from curator_bench.values import Began, Cause, Ended, Slice, Verdict, Where


class LocalRunner:
    """Carries out runs here. Ctrl-C ends the current run, whose `Ended` follows, and is raised as KeyboardInterrupt."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._order: Order | None = None
        self._events: deque[Event] = deque()

    def has_room(self, needs: Slice) -> bool:
        return self._order is None and not self._events

    def submit(self, order: Order) -> None:
        self._order = order
        self._events.append(Began(order.uid))

    def next_event(self, within_s: float) -> Event | None:
        if self._events:
            return self._events.popleft()
        if self._order is None:
            return None
        order, self._order = self._order, None
        began = datetime.now(UTC)
        try:
            with interrupts.open_to_ctrl_c():
                return Ended(order.uid, run_entry(order.plan, self._bench))
        except KeyboardInterrupt as stop:
            answered = stop.result if isinstance(stop, Interrupted) else None
            result = answered or answer_for(order.plan, Verdict.INTERRUPTED, "stopped from outside", None, began)
            self._events.append(Ended(order.uid, result))
            raise KeyboardInterrupt from None

    def stop(self, uid: str) -> None:
        if self._order is not None:
            self._order = None
            self._events.append(Refused(uid, "stopped from outside", Cause.CONFIGURATION))

    def can_repeat(self, where: Where | None) -> bool:
        return True
