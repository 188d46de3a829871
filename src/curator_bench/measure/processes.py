"""Find and end the processes of one run, even if they left its group or session or their parent died.

A run's processes are known by a mark in the environment that every descendant inherits, by a brand if a process wiped
its environment (see limit_marks.py), and by the process tree.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from curator_bench import interrupts
from curator_bench.measure.limit_marks import is_branded

RUN_VARIABLE = "CURATOR_BENCH_RUN"
GUARD_VARIABLE = "CURATOR_BENCH_GUARD"
GUARDS_TURN_S = 3.0
"""Seconds a guard may go on clearing up before it is killed; longer on a busy machine."""
DEFAULT_GRACE_S = 5.0
_MOST_LOOKS = 10
_PROOF = 3
"""Number of empty looks, with processes ending meanwhile, that prove as much as one empty look on a quiet machine.

Some machines are never quiet.
"""
_BUSIEST = 3.0
"""Largest factor by which a busy machine raises the number of empty looks, and the time to wait."""
_NEWEST = 16
"""Number of processes whose mark is read before the table, because they may end while it is read."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.1

# Positions in /proc/PID/stat, counted after the name, which may contain blanks and brackets (proc_pid_stat(5)).
_STATE, _PARENT, _SESSION, _FLAGS, _THREADS, _STARTED = 0, 1, 3, 6, 17, 19
_EXITING = 0x4
"""PF_EXITING of the kernel's include/linux/sched.h."""
_PENDING = re.compile(rb"^(?:Sig|Shd)Pnd:\s*([0-9a-f]+)", re.MULTILINE)
_SIGKILL_PENDING = 1 << (signal.SIGKILL - 1)
_KERNEL_THREADS = 2
"""Pid of the parent of all kernel threads."""


@dataclass(frozen=True, slots=True, order=True)
class ProcessId:
    """Identity of a process. A pid may be reused; pid and start together are unique."""

    pid: int
    started: float
    """Start in the clock of the system's process table; only good for comparing."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark that the processes of one run or one cluster carry in their environment."""

    value: str
    variable: str = RUN_VARIABLE

    def environment(self) -> dict[str, str]:
        """Variables to add to a child's environment.

        SPT_NOENV stops programs that rename themselves (such as Ray's workers) from overwriting the environment.
        """
        return {self.variable: self.value, "SPT_NOENV": "1"}

    def is_branded_on(self, pid: int) -> bool:
        """True if the process has the matching brand, which survives a wiped environment."""
        return is_branded(pid, run=self.value) if self.variable == RUN_VARIABLE else is_branded(pid, own=self.value)


@dataclass(frozen=True, slots=True)
class _Row:
    process: ProcessId
    parent: int
    session: int


@dataclass(frozen=True, slots=True)
class _Table:
    """All processes of the machine at one moment, as far as they can be read."""

    living: Mapping[int, _Row]
    dead: frozenset[int]
    """Pids that were listed but had ended when they were read."""


@dataclass(frozen=True, slots=True)
class _Sight:
    found: frozenset[ProcessId]
    dead: frozenset[int]


def identify(pid: int) -> ProcessId | None:
    """Identify the process with this pid; None if there is none or only a zombie.

    A pid from a file or a database may be anything, and must not become a path.
    """
    row = _row(pid) if type(pid) is int else None
    return row.process if row else None


def is_running(process: ProcessId) -> bool:
    return identify(process.pid) == process


def is_ending(process: ProcessId) -> bool:
    """True if the process is gone, or SIGKILL was sent to it. On a busy machine it may take a while to end."""
    return not is_running(process) or _was_killed(process.pid)


def busyness() -> float:
    """Processes ready to run for each core, at least 1: the factor by which all takes longer."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def patience(seconds: float) -> float:
    """Time to wait for processes that may need so many seconds on a quiet machine. It is longer on a busy one."""
    return seconds * min(busyness(), _BUSIEST)


def find_processes(
    mark: Mark | None, roots: Iterable[ProcessId | int] = (), *, settle: bool = True, under: ProcessId | None = None
) -> frozenset[ProcessId]:
    """Find the living processes that carry the mark, `roots`, the descendants of both, and the sessions they lead.

    The descendants of `under` are included, but not `under` itself. This process and its ancestors are never included.
    With `settle`, look until two looks agree, because a process that forks while the table is read can be missed.
    """
    known = frozenset(_identified(roots))
    found = _look(mark, known, under).found
    for _ in range(_MOST_LOOKS if settle else 0):
        again = _look(mark, known | found, under).found
        if again <= found:
            return again
        found = again
    return found


def end_processes(
    mark: Mark | None,
    roots: Iterable[ProcessId | int] = (),
    *,
    grace_s: float = DEFAULT_GRACE_S,
    patience_s: float = 10.0,
    before_end: Callable[[Iterable[int]], object] | None = None,
    under: ProcessId | None = None,
) -> frozenset[ProcessId]:
    """End what `find_processes` finds: SIGTERM, SIGKILL after `grace_s`, until no process is found any more.

    Returns what still runs `patience_s` after the first SIGKILL (stuck in the kernel, or another user's). `before_end`
    gets the pids of all processes to be asked to end, and later of all to be killed. Each time they have been stopped
    before, so that they create nothing more meanwhile. Guards among them (see execution/guard.py) end by themselves
    once they have cleared up; they are killed only if that takes too long.
    """
    termination = _Termination(mark, roots, under)
    if grace_s > 0:
        termination.ask(grace_s, before_end)
    if before_end is not None:
        before_end(process.pid for process in termination.stop())
    return termination.kill(patience_s)


class _Termination:
    """One attempt to end a run's processes. A process once seen stays known, even if its parent dies first."""

    def __init__(self, mark: Mark | None, roots: Iterable[ProcessId | int], under: ProcessId | None) -> None:
        self._mark, self._under = mark, under
        self._known = frozenset(_identified(roots))
        self._dead: frozenset[int] = frozenset()
        self._looks_in_vain = 0.0
        self._guards: frozenset[ProcessId] = frozenset()
        self._spares_guards = True

    def ask(self, grace_s: float, before_end: Callable[[Iterable[int]], object] | None) -> None:
        deadline = time.monotonic() + grace_s
        asked: set[ProcessId] = set()
        for pause_s in _pauses():
            found = self._look()
            if new := found - asked:
                self._ask(new, before_end)
            asked |= found
            if not found or time.monotonic() >= deadline or interrupts.is_hurried():
                return
            time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))

    @staticmethod
    def _ask(processes: frozenset[ProcessId], before_end: Callable[[Iterable[int]], object] | None) -> None:
        numbers = [signal.SIGTERM]
        if before_end is not None:
            for process in processes:
                _send(process, signal.SIGSTOP)
            before_end(process.pid for process in processes)
            numbers.append(signal.SIGCONT)
        for number in numbers:
            for process in processes:
                _send(process, number)

    def stop(self) -> frozenset[ProcessId]:
        """Stop the processes; look again until no new one is found, because one may start meanwhile."""
        stopped: frozenset[ProcessId] = frozenset()
        for _ in range(_MOST_LOOKS):
            new = self._look() - stopped
            if not new:
                break
            for process in new:
                _send(process, signal.SIGSTOP)
            stopped |= new
        return stopped

    def kill(self, patience_s: float) -> frozenset[ProcessId]:
        if self._is_over():
            return frozenset()
        began = time.monotonic()
        turn_s = min(GUARDS_TURN_S * busyness(), patience_s / 2)
        found: frozenset[ProcessId] = frozenset()
        for pause_s in _pauses():
            self._spares_guards = time.monotonic() - began < turn_s
            found = self._look()
            for process in found:
                _send(process, signal.SIGKILL)
            if self._is_over() or time.monotonic() - began >= patience_s:
                break
            if found or self._guards:
                time.sleep(pause_s)
        return found

    def _look(self) -> frozenset[ProcessId]:
        """Look once. Guards are found apart, as long as they are spared.

        A process that keeps forking itself could escape every look. Its parent is then listed but ended when read, so
        an empty look with newly ended processes is weak evidence and more looks follow. On a busy machine reading the
        table takes longer than such a process lives, so the newest ones are read first: one with the mark that has
        ended since has left a successor.
        """
        newest = _newest_marked(self._mark) if self._mark else frozenset()
        sight = _look(self._mark, self._known | newest, self._under)
        is_proof = sight.dead <= self._dead
        self._known |= sight.found
        self._dead = sight.dead
        if sight.found or not all(map(is_running, newest)):
            self._looks_in_vain = 0
        else:
            self._looks_in_vain += _PROOF if is_proof else 1 / min(busyness(), _BUSIEST)
        self._guards = frozenset(filter(_is_guard, sight.found)) if self._spares_guards else frozenset()
        return sight.found - self._guards

    def _is_over(self) -> bool:
        return self._looks_in_vain >= 2 * _PROOF


def _newest_marked(mark: Mark) -> frozenset[ProcessId]:
    """Read which of the youngest processes carry the mark."""
    found = [identify(pid) for pid in _newest_pids() if _carries(pid, mark)]
    return frozenset(process for process in found if process is not None)


def _is_guard(process: ProcessId) -> bool:
    return bool(_carries(process.pid, Mark("1", GUARD_VARIABLE)))


def resume(process: ProcessId) -> None:
    """Let a stopped process go on."""
    _send(process, signal.SIGCONT)


def _pauses() -> Iterator[float]:
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)


def _identified(roots: Iterable[ProcessId | int]) -> Iterator[ProcessId]:
    for root in roots:
        process = identify(root) if isinstance(root, int) else root
        if process is not None:
            yield process


def _send_by_number(process: ProcessId, number: signal.Signals) -> None:
    if is_running(process):
        with suppress(OSError):  # gone meanwhile, or another user's
            os.kill(process.pid, number)


def _look(mark: Mark | None, roots: Collection[ProcessId], under: ProcessId | None) -> _Sight:
    table = _read_table()
    spared = set(_ancestry(os.getpid(), table.living))
    if under is not None and under.pid in table.living and table.living[under.pid].process == under:
        spared.add(under.pid)
        roots = [*roots, *(row.process for row in table.living.values() if row.parent == under.pid)]
    rows = {pid: row for pid, row in table.living.items() if pid not in spared}
    carried = {pid: _carries(pid, mark) for pid in rows} if mark else {}
    marked = (pid for pid, carries in carried.items() if carries or (mark and mark.is_branded_on(pid)))
    given = (root.pid for root in roots if root.pid in rows and rows[root.pid].process == root)
    members = _closure({*marked, *given}, rows.values())
    ended = (pid for pid, carries in carried.items() if carries is None and not is_running(rows[pid].process))
    return _Sight(frozenset(rows[pid].process for pid in members), table.dead.union(ended))


def _ancestry(pid: int, table: Mapping[int, _Row]) -> Iterator[int]:
    """Yield the process and its ancestors up to pid 1, even if the table lacks some of them."""
    while pid > 0:
        yield pid
        row = table.get(pid)
        pid = row.parent if row else 0
    yield 1


def _closure(members: set[int], rows: Iterable[_Row]) -> set[int]:
    """Add all descendants of members, and all processes of the sessions that members lead."""
    followers: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        followers[row.parent].append(row.process.pid)
        followers[row.session].append(row.process.pid)
    waiting = list(members)
    while waiting:
        new = [pid for pid in followers[waiting.pop()] if pid not in members]
        members.update(new)
        waiting.extend(new)
    return members


if sys.platform == "linux":

    def _send(process: ProcessId, number: signal.Signals) -> None:
        """Send a signal to this process and no other, even if its pid is reused."""
        try:
            descriptor = os.pidfd_open(process.pid)
        except OSError:  # gone (checked again below), or an old kernel
            _send_by_number(process, number)
            return
        with suppress(OSError), os.fdopen(descriptor, "rb", buffering=0):  # gone meanwhile, or another user's
            if is_running(process):
                signal.pidfd_send_signal(descriptor, number)

    def _newest_pids() -> list[int]:
        return sorted((int(name) for name in os.listdir("/proc") if name.isdigit()), reverse=True)[:_NEWEST]

    def _read_table() -> _Table:
        pids = frozenset(int(name) for name in os.listdir("/proc") if name.isdigit())
        rows = {pid: row for pid in pids if (row := _row(pid))}
        living = {pid: row for pid, row in rows.items() if row.parent != _KERNEL_THREADS}
        return _Table(living, pids - rows.keys())

    def _row(pid: int) -> _Row | None:
        """Read a row of the table; None if the process has ended or is a zombie.

        A process whose first thread has ended while others run still counts.
        """
        try:
            with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
                fields = file.read(4096).rpartition(b") ")[2].split()
        except OSError:
            return None
        if len(fields) <= _STARTED or (fields[_STATE] in b"ZXx" and int(fields[_THREADS]) <= 1):
            return None
        return _Row(ProcessId(pid, int(fields[_STARTED])), int(fields[_PARENT]), int(fields[_SESSION]))

    def _was_killed(pid: int) -> bool:
        """True if SIGKILL waits for the process, or the kernel is taking it down."""
        try:
            with open(f"/proc/{pid}/status", "rb", buffering=0) as file:
                pending = [int(mask, 16) for mask in _PENDING.findall(file.readall() or b"")]
            with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
                flags = int(file.read(4096).rpartition(b") ")[2].split()[_FLAGS])
        except (OSError, IndexError):  # it has ended
            return True
        return bool(flags & _EXITING) or any(mask & _SIGKILL_PENDING for mask in pending)

    def _carries(pid: int, mark: Mark) -> bool | None:
        """True if the process carries the mark; None if its environment cannot be read."""
        try:
            with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
                environment = file.read()
        except OSError:  # gone, or another user's
            return None
        return f"\0{mark.variable}={mark.value}\0".encode() in b"\0" + environment + b"\0" if environment else None

else:
    _send = _send_by_number

    def _was_killed(pid: int) -> bool:
        return False

    def _newest_pids() -> list[int]:
        import psutil

        return sorted(psutil.pids(), reverse=True)[:_NEWEST]

    def _read_table() -> _Table:
        import psutil

        pids = frozenset(psutil.pids())
        living = {pid: row for pid in pids if (row := _row(pid))}
        return _Table(living, pids - living.keys())

    def _row(pid: int) -> _Row | None:
        import psutil

        try:
            process = psutil.Process(pid)
            with process.oneshot():
                if process.status() == psutil.STATUS_ZOMBIE:
                    return None
                return _Row(ProcessId(pid, process.create_time()), process.ppid(), os.getsid(pid))
        except (psutil.Error, OSError):
            return None

    def _carries(pid: int, mark: Mark) -> bool | None:
        import psutil

        try:
            return bool(psutil.Process(pid).environ().get(mark.variable) == mark.value)
        except (psutil.Error, OSError):
            return None
