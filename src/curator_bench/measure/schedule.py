"""One daemon thread that calls jobs when they are due and limits their cost to a share of one core."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

_FREE_CPU_S = 0.05
"""Processor time a job may use before its share applies, so that short runs are sampled too."""


class Job:
    """A call that is repeated. A failure is logged once and does not stop the job."""

    def __init__(
        self,
        name: str,
        call: Callable[[], None],
        interval: Callable[[float], float],
        share: float,
        end: Callable[[], None] | None = None,
    ) -> None:
        """Set up the job.

        `interval` returns the seconds to the next call from the seconds since the first; `share` is the share of one
        core. `end` is called after the last call, on the same thread.
        """
        self._name, self._call, self._interval, self._share, self._end = name, call, interval, share, end
        self._began = self._due = 0.0
        self._cpu_s = 0.0
        self._failures: list[str] = []
        self.hurried = False
        self.leaving = False
        self.called = threading.Event()
        self.left = threading.Event()

    def begin(self) -> None:
        self._began = self._due = time.monotonic()

    def run(self) -> None:
        cpu_before = time.thread_time()
        self._try(self._call)
        self._cpu_s += time.thread_time() - cpu_before
        self._due = self._next_due(time.monotonic())
        self.called.set()

    def end(self) -> None:
        if self._end is not None:
            self._try(self._end)
        self.left.set()

    @property
    def due(self) -> float:
        return 0.0 if self.hurried else self._due

    def warnings(self) -> tuple[str, ...]:
        return tuple(self._failures)

    def _next_due(self, now: float) -> float:
        affordable = self._began + (self._cpu_s - _FREE_CPU_S) / self._share
        return max(now + self._interval(now - self._began), affordable)

    def _try(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as failure:  # a failing sampler is a warning and never ends the run
            self._note(failure)

    def _note(self, failure: Exception) -> None:
        if not self._failures:
            self._failures.append(f"{self._name} failed: {type(failure).__name__}: {failure}")
            logger.warning("%s", self._failures[0], exc_info=failure)


class Schedule:
    """Runner of jobs, one after the other, on a thread that lives while there are any. Samplers may share one."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, job: Job, patience_s: float = 2.0) -> bool:
        """Call `job` now and whenever it is due; False if the first call takes longer than `patience_s`."""
        with self._changed:
            job.begin()
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="curator-bench sampling", daemon=True)
                self._thread.start()
            self._changed.notify()
        return job.called.wait(patience_s)

    def hurry(self, job: Job) -> None:
        """Call `job` at once, whatever it has cost so far."""
        with self._changed:
            job.hurried = True
            self._changed.notify()

    def remove(self, job: Job, patience_s: float = 2.0) -> bool:
        """Call `job` a last time; False if that did not finish within `patience_s`."""
        with self._changed:
            if job not in self._jobs:
                return True
            job.leaving = job.hurried = True
            self._changed.notify()
        return job.left.wait(patience_s)

    def _run(self) -> None:
        while (job := self._wait_for_due()) is not None:
            last = job.leaving
            job.run()
            if last:
                with self._changed:
                    self._jobs.remove(job)
                job.end()

    def _wait_for_due(self) -> Job | None:
        with self._changed:
            while self._jobs:
                job = min(self._jobs, key=lambda each: each.due)
                wait_s = job.due - time.monotonic()
                if wait_s <= 0:
                    job.hurried = False  # a later hurry calls the job again
                    return job
                self._changed.wait(wait_s)
            self._thread = None
            return None
