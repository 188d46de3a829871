"""The progress of an invocation: finished and current runs, the time left, GPU-hours so far."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from curator_bench.files.json_files import read_object
from curator_bench.report.session_runs import CLAIM, RESULTS, STATUS
from curator_bench.values import RunRecord

_FINE = frozenset(["passed", "skipped"])
_OF_USUAL_LENGTH = frozenset(["passed", "failed", "timeout"])
"""Verdicts of runs that took as long as they usually would. Others ended early."""
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Planned:
    """An entry that may run: the folder of its status, and its GPUs. None stands for all GPUs of its cluster."""

    directory: Path
    num_gpus: float | None = 0.0


@dataclass(frozen=True, slots=True)
class Usual:
    """The earlier durations of an entry, in seconds."""

    as_it_is: float | None = None
    """The duration with the same definition."""
    otherwise: float | None = None
    """The duration with earlier definitions."""


@dataclass(frozen=True, slots=True)
class Underway:
    """A run in progress."""

    name: str
    nodeid: str
    host: str
    gpus: tuple[str, ...]
    elapsed_s: float
    expected_s: float | None
    state: str
    last_line: str
    in_fleet: bool


@dataclass(frozen=True, slots=True)
class ProgressSnapshot:
    """The progress at one moment. Each selected entry is done, skipped by resume, running, waiting or run elsewhere."""

    skipped_by_resume: int
    done_elsewhere: int
    """Entries that another invocation of the session finished since this one began."""
    running_elsewhere: tuple[str, ...]
    waiting: int
    counts: Mapping[str, int]
    """The number of finished entries by verdict."""
    running: tuple[Underway, ...]
    elapsed_s: float
    left_s: float | None
    """Seconds left; None if an expected duration is unknown."""
    gpu_hours: float

    @property
    def done(self) -> int:
        return sum(self.counts.values())

    @property
    def failed(self) -> int:
        return sum(count for verdict, count in self.counts.items() if verdict not in _FINE)

    @property
    def total(self) -> int:
        theirs = self.done_elsewhere + len(self.running_elsewhere)
        return self.done + self.skipped_by_resume + len(self.running) + self.waiting + theirs


@dataclass(slots=True)
class _Begun:
    since: float
    host: str = ""
    gpus: tuple[str, ...] = ()
    status: Mapping[str, Any] = field(default_factory=dict)
    """The status as a fleet sends it. Otherwise it is read from the run's folder."""


class Progress:
    """Keeps the progress. The main thread notes what begins and ends; display threads read it."""

    def __init__(self, planned: Mapping[str, Planned], usual: Callable[[], Mapping[str, Usual]] = dict) -> None:
        """Both arguments are by node id. `usual` returns earlier durations; the first `look_up` calls it once."""
        self._planned = planned
        self._times = _Times(usual)
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._expected: dict[str, None] = {}
        self._running: dict[str, _Begun] = {}
        self._verdicts: dict[str, str] = {}
        self._elsewhere: dict[str, bool] = {}
        """Node ids that another invocation of the session runs; True once they are done."""
        self._skipped_by_resume = 0
        self._gpu_s = 0.0

    def expect(self, nodeids: Iterable[str]) -> None:
        """Note the entries that will run among all collected items."""
        with self._lock:
            self._expected.update(dict.fromkeys(nodeid for nodeid in nodeids if nodeid in self._planned))

    def note_done_before(self, runs: Sequence[RunRecord]) -> None:
        """Note the runs skipped by --bench-resume. Their durations help to estimate others."""
        with self._lock:
            self._skipped_by_resume = len(runs)
            for run in runs:
                self._times.note(run.nodeid, run.verdict, run.duration_s)

    def begin(self, nodeid: str, host: str = "", gpus: Sequence[str] = ()) -> None:
        """Note that a run has begun. `host` and `gpus` are given in a fleet."""
        with self._lock:
            self._expected[nodeid] = None
            self._verdicts.pop(nodeid, None)
            self._running[nodeid] = _Begun(time.monotonic(), host, tuple(gpus))

    def note_elsewhere(self, nodeid: str) -> None:
        """Note that another invocation of the session runs the entry, or has run it."""
        with self._lock:
            self._running.pop(nodeid, None)
            self._elsewhere[nodeid] = False

    def note_status(self, nodeid: str, status: Mapping[str, Any]) -> None:
        with self._lock:
            if nodeid in self._running:
                self._running[nodeid].status = status

    def wait_again(self, nodeid: str) -> None:
        """Note that an attempt has ended and another will follow."""
        with self._lock:
            if (begun := self._running.pop(nodeid, None)) is not None:
                self._gpu_s += self._gpus(nodeid) * (time.monotonic() - begun.since)

    def end(self, nodeid: str, verdict: str, run: RunRecord | None = None) -> None:
        """Note that an item has ended.

        `run` is the record its report carries, if any. A second call replaces the verdict.
        """
        with self._lock:
            begun = self._running.pop(nodeid, None)
            if nodeid in self._expected and (begun or run):
                self._verdicts[nodeid] = verdict
            if begun and run:
                self._count_time(nodeid, verdict, run)

    def _count_time(self, nodeid: str, verdict: str, run: RunRecord) -> None:
        self._gpu_s += self._gpus(nodeid, run) * run.duration_s
        self._times.note(nodeid, verdict, run.duration_s)

    @property
    def has_skipped(self) -> bool:
        """True if --bench-resume skipped runs."""
        return bool(self._skipped_by_resume)

    def look_up(self) -> None:
        """Read earlier durations from history. This may take a second, so keep it off the thread that runs entries."""
        self._times.look_up()

    def now(self) -> ProgressSnapshot:
        with self._lock:
            running = list(self._running.items())
            now = time.monotonic()
            underway = tuple(self._underway(nodeid, begun, now) for nodeid, begun in running)
            theirs = self._theirs()
            begun_or_done = {*self._verdicts, *self._running, *theirs}
            waiting = [nodeid for nodeid in self._expected if nodeid not in begun_or_done]
            spent = self._gpu_s + sum(self._gpus(run.nodeid) * run.elapsed_s for run in underway)
            return ProgressSnapshot(
                skipped_by_resume=self._skipped_by_resume,
                done_elsewhere=sum(self._elsewhere.values()),
                running_elsewhere=tuple(_name(nodeid) for nodeid in theirs if not self._elsewhere[nodeid]),
                waiting=len(waiting),
                counts=dict(Counter(self._verdicts.values())),
                running=underway,
                elapsed_s=now - self._began,
                left_s=self._left_s(waiting, underway),
                gpu_hours=spent / _HOUR_S,
            )

    def _theirs(self) -> list[str]:
        """Return the node ids that other invocations run or finished. Entries they gave up are waiting again."""
        found = []
        for nodeid, is_done in self._elsewhere.items():
            folder = self._planned[nodeid].directory if nodeid in self._planned else None
            if not is_done and folder is not None and not (folder / CLAIM).exists():
                is_done = self._elsewhere[nodeid] = (folder / RESULTS).exists()
                if not is_done:
                    continue
            found.append(nodeid)
        return found

    def _underway(self, nodeid: str, begun: _Begun, now: float) -> Underway:
        planned = self._planned.get(nodeid)
        status = begun.status or (read_object(planned.directory / STATUS) if planned else {})
        return Underway(
            name=_name(nodeid),
            nodeid=nodeid,
            host=begun.host or str(status.get("host", "")),
            gpus=begun.gpus,
            elapsed_s=now - begun.since,
            expected_s=self._times.usual(nodeid),
            state=str(status.get("state", "")),
            last_line=str(status.get("last_line", "")),
            in_fleet=bool(begun.host),
        )

    def _left_s(self, waiting: Sequence[str], running: Sequence[Underway]) -> float | None:
        """Estimate the seconds left, if as many runs as now stay side by side."""
        rest = [(self._times.expected(run.nodeid), run.elapsed_s) for run in running]
        rest += [(self._times.expected(nodeid), 0.0) for nodeid in waiting]
        if any(expected is None for expected, _ in rest):
            return None
        seconds = [max(0.0, (expected or 0.0) - elapsed) for expected, elapsed in rest]
        return max([sum(seconds) / max(1, len(running)), *seconds], default=0.0)

    def _gpus(self, nodeid: str, run: RunRecord | None = None) -> float:
        planned = self._planned.get(nodeid)
        asked = planned.num_gpus if planned else 0.0
        return ((run.ray_num_gpus if run else None) or 0.0) if asked is None else asked


class _Times:
    """Expected durations of entries.

    The first known of these counts: the entry's history with its current definition; the mean in this session over all
    its axis values; its history with earlier definitions; the mean of all entries in this session.
    """

    def __init__(self, usual: Callable[[], Mapping[str, Usual]]) -> None:
        self._ask = usual
        self._asking = threading.Lock()
        self._usual: Mapping[str, Usual] | None = None
        self._took: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        """Sums of seconds and of runs by entry name, and of all runs under the empty name."""

    def look_up(self) -> None:
        with self._asking:
            if self._usual is None:
                self._usual = self._ask()

    def note(self, nodeid: str, verdict: str, seconds: float) -> None:
        if verdict in _OF_USUAL_LENGTH:
            for name in (_without_axes(nodeid), ""):
                self._took[name][0] += seconds
                self._took[name][1] += 1

    def usual(self, nodeid: str) -> float | None:
        return self._before(nodeid).as_it_is

    def expected(self, nodeid: str) -> float | None:
        before = self._before(nodeid)
        known = (before.as_it_is, self._mean(_without_axes(nodeid)), before.otherwise, self._mean(""))
        return next((seconds for seconds in known if seconds is not None), None)

    def _before(self, nodeid: str) -> Usual:
        return (self._usual or {}).get(nodeid) or Usual()

    def _mean(self, name: str) -> float | None:
        seconds, runs = self._took.get(name) or (0.0, 0)
        return seconds / runs if runs else None


def _name(nodeid: str) -> str:
    return nodeid.partition("::")[2]


def _without_axes(nodeid: str) -> str:
    """Return the node id without axis values."""
    return nodeid.partition("[")[0]
