"""Program between us and a child of a run. It starts the child, reports its end, and ends its leftovers.

On Linux it is a subreaper (prctl(2)): a process that leaves the child's tree, by any forks and sessions, becomes a
child of this process, even without mark, brand or environment. It forks once, so that it survives if one of the two is
killed. It runs alone (standard library, no site), so that it starts quickly.

Arguments: a pipe that breaks when we end, a pipe for its answers, our pid, the child's brand (see brands.py). Standard
input: the command.
"""

from __future__ import annotations

import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from contextlib import suppress
else:  # every run waits for this program: the modules signal and contextlib would double the time it takes to start
    import _signal as signal

    class _Suppress:
        def __init__(self, *errors):
            self._errors = errors

        def __enter__(self):
            pass

        def __exit__(self, kind, error, traceback):
            return kind is not None and issubclass(kind, self._errors)

    suppress = _Suppress

IN_GOOD_ORDER = b"."
GUARDS_TURN_S = 2.5
"""Seconds the guard may clean up first; longer on a busy machine."""
_GIVES_UP_AFTER_S = 10.0
_RLIMIT_LOCKS = 10
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PYTHONS_OWN = (signal.SIGPIPE, signal.SIGXFSZ)
_LOOK_EVERY_MS = 500
_NO_SUCH_PROGRAM = 127
_MOST_DESCRIPTORS = 65536
_VARIABLE, _LIMIT = b"CURATOR_BENCH_RUN=", b"Max file locks"


def main() -> None:
    life, answers, bench, brand = map(int, sys.argv[1:])
    for descriptor in (life, answers):
        os.set_inheritable(descriptor, False)
    inherited: dict[int, object] = {number: signal.getsignal(number) for number in _IGNORED}
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    _adopt_orphans()
    _go_on_when_the_bench_ends()
    outer, inner = os.getpid(), os.fork()
    if inner:
        _stand_by(inner, life, brand)
        os._exit(0)  # quicker than the end of an interpreter
    _adopt_orphans()  # a fork does not inherit this
    keeper = _Keeper(life, answers, bench, outer, brand)
    try:
        keeper.start(inherited)
        keeper.watch()
    finally:
        keeper.end_all()
    os._exit(0)


def _stand_by(inner: int, life: int, brand: int) -> None:
    """Wait as the outer keeper.

    It inherits the processes of the inner keeper if that is killed, and holds nothing else open. A script may have
    stopped both: whatever lets this one go on, it lets the inner one go on.
    """
    signal.signal(signal.SIGCONT, lambda *_: _go_on(inner))
    os.closerange(0, life)
    os.closerange(life + 1, _MOST_DESCRIPTORS)
    while True:
        try:
            pid, _ = os.waitpid(-1, 0)
        except ChildProcessError:
            return
        if pid == inner:
            break
    _end_children(life, brand, _reap_all)


def _end_children(life: int, brand: int, has_children: Callable[[], bool]) -> None:
    """End all children.

    Children without their marks are killed at once. The bench or its guard first gets time to end the others, because
    it removes their shared memory while they live.
    """
    turn_s = GUARDS_TURN_S * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    began, pause_s = time.monotonic(), 0.0005
    poll = select.poll()
    poll.register(life, select.POLLIN | select.POLLHUP)
    while has_children() and (waited_s := time.monotonic() - began) < turn_s + _GIVES_UP_AFTER_S:
        if waited_s < turn_s and poll.poll(0):
            turn_s = 0.0 if os.read(life, 1) == IN_GOOD_ORDER else turn_s
        for pid in _children():
            if waited_s >= turn_s or not _is_marked(pid, brand):
                _kill(pid)
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.2, 0.05)


class _Keeper:
    def __init__(self, life: int, answers: int, bench: int, outer: int, brand: int) -> None:
        self._life, self._answers, self._watched = life, answers, (bench, outer)
        self._outer, self._brand = outer, brand
        self._child = 0
        self._ended, ended = os.pipe()
        for descriptor in (self._ended, ended):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(ended, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def start(self, inherited: dict[int, object]) -> None:
        folder, count, *rest = sys.stdin.buffer.read().split(b"\0")
        words, pairs = rest[: int(count)], rest[int(count) :]
        env = dict(pair.split(b"=", 1) for pair in pairs)
        reports, reporter = os.pipe()
        self._child = os.fork()
        if not self._child:
            _set_brand(self._brand)
            _become(words, env, folder, inherited, reporter)
        os.close(reporter)
        began, *problem = _all_of(reports).split(b" ")
        facts = [b"%d" % self._child, began, b"%d" % os.getpid()]
        self._answer(b" ".join([b"problem", *problem] if problem else [b"started", *facts]))

    def watch(self) -> None:
        """Wait until the bench ends or reports that it is done."""
        poll = select.poll()
        poll.register(self._life, select.POLLIN | select.POLLHUP)
        poll.register(self._ended, select.POLLIN)
        every_ms: int | None = _LOOK_EVERY_MS
        ends = []
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):  # one has ended, or an old kernel
                ends = [os.pidfd_open(pid) for pid in self._watched]
                every_ms = None
        for end in ends:
            poll.register(end, select.POLLIN)
        while os.getppid() == self._outer and _is_there(self._watched[0]):
            ready = [descriptor for descriptor, _ in poll.poll(every_ms)]
            if self._ended in ready:
                _empty(self._ended)
            self._reap()
            if set(ends) & set(ready):  # a fork of the bench may hold the pipe open
                return
            if self._life in ready:
                return

    def end_all(self) -> None:
        """End all processes. Closing the answers tells a living bench to report that it is done."""
        os.close(self._answers)
        self._answers = -1
        _end_children(self._life, self._brand, self._reap)

    def _reap(self) -> bool:
        """Reap ended children; false once none is left, adopted orphans included."""
        try:
            while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                if found[0] == self._child:
                    self._child = 0
                    self._answer(f"ended {os.waitstatus_to_exitcode(found[1])} {time.monotonic()!r}".encode())
        except ChildProcessError:
            return False
        return True

    def _answer(self, line: bytes) -> None:
        with suppress(BrokenPipeError):  # the bench was killed
            if self._answers >= 0:
                os.write(self._answers, line + b"\n")


def _become(
    words: list[bytes], env: dict[bytes, bytes], folder: bytes, inherited: dict[int, object], reporter: int
) -> None:
    """Become the child's program, as `subprocess` would start it."""
    shown = folder
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(folder)
        shown = words[0]
        for number in (*_PYTHONS_OWN, *(one for one, how in inherited.items() if how is not signal.SIG_IGN)):
            signal.signal(number, signal.SIG_DFL)
        os.write(reporter, repr(time.monotonic()).encode())
        os.execvpe(words[0], words, env)
    except OSError as error:
        os.write(reporter, f" {error.errno} {shown is folder:d}".encode())
    finally:
        os._exit(_NO_SUCH_PROGRAM)


def _set_brand(brand: int) -> None:
    if brand:
        import resource

        with suppress(OSError, ValueError):  # the limit is restricted
            resource.setrlimit(_RLIMIT_LOCKS, (brand, resource.getrlimit(_RLIMIT_LOCKS)[1]))


def _all_of(reports: int) -> bytes:
    """Read the child's messages until it executes the program or ends."""
    said = b""
    while piece := os.read(reports, 100):
        said += piece
    os.close(reports)
    return said


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _go_on_when_the_bench_ends() -> None:
    """Ask the kernel for SIGCONT when the parent ends, because a script may have stopped this process."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGCONT), 0, 0, 0)


def _go_on(pid: int) -> None:
    with suppress(OSError):  # it has ended
        os.kill(pid, signal.SIGCONT)


def _children() -> list[int]:
    """Pids of our direct children. When they end, their children become ours."""
    own = os.getpid()
    try:
        with open(f"/proc/self/task/{own}/children", "rb", buffering=0) as file:
            return [int(pid) for pid in file.readall().split()]
    except OSError:  # a kernel without, or no /proc
        return [pid for pid in map(int, filter(str.isdigit, _listed("/proc"))) if _parent(pid) == own]


def _is_marked(pid: int, brand: int) -> bool:
    """True if the process has the marks of the run, as processes.py checks them."""
    environment, limits = _content(f"/proc/{pid}/environ"), _content(f"/proc/{pid}/limits")
    return _VARIABLE in environment or (brand > 0 and b"%d" % brand in limits.partition(_LIMIT)[2].split(None, 1)[:1])


def _content(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall()
    except OSError:  # it has ended
        return b""


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            return int(file.read(4096).rpartition(b") ")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _kill(pid: int) -> None:
    """Kill a child. Its pid cannot be reused before this process has waited for it."""
    with suppress(OSError):  # another user's
        os.kill(pid, signal.SIGKILL)


def _reap_all() -> bool:
    """Reap ended children; false once none is left."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return False
    return True


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _empty(descriptor: int) -> None:
    with suppress(BlockingIOError):
        while os.read(descriptor, 4096):
            pass
