"""Program of the guard process (see guard.py).

Arguments: the pipe's descriptor, the watched process, --detached if that is not our parent, and the process the watched
one works for, if any. Standard input: the mark (every user could read it among the arguments), and the files in shared
memory that are not the watched process's.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from curator_bench.cluster.shared_memory import Segments
from curator_bench.cluster.temp_dirs import remove_leftovers
from curator_bench.measure.limit_marks import shed_brand
from curator_bench.measure.processes import Mark, ProcessId, identify, is_running

IN_GOOD_ORDER, AT_WORK, RESTING = b".", b"w", b"r"
DETACHED = "--detached"
_LOOK_EVERY_MS = 500
_PR_SET_PDEATHSIG = 1
_STOPS_WITHIN_S = 2.0
_LOOKS_AFTER_A_KILL, _BETWEEN_LOOKS_S = 3, 0.3


def main() -> None:
    descriptor, watched = int(sys.argv[1]), int(sys.argv[2])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _go_on_when_the_parent_ends()
    _tell_that_it_watches()
    shed_brand()  # the watched process may be a worker of a cluster, whose end must not end us
    mark, *names = sys.stdin.buffer.read().split(b"\0")
    marker = mark.decode()
    if not marker:  # our starter was ended while it started us, and has started nothing else
        return
    segments = Segments(frozenset(Path(os.fsdecode(name)) for name in names if name))
    process = identify(watched)
    if DETACHED in sys.argv and os.fork():
        os._exit(0)
    controllers = [identify(int(pid)) for pid in sys.argv[3:] if pid != DETACHED]
    heard = Watch(descriptor, watched, controllers, process if DETACHED in sys.argv else None).wait()
    segments.note_files(Path(os.fsdecode(message)) for message in heard if message.startswith(b"/"))
    clean_up(marker, segments)
    for _ in range(_LOOKS_AFTER_A_KILL if _was_at_work(heard) else 0):
        time.sleep(_BETWEEN_LOOKS_S)  # a process just being started may not carry the mark yet
        clean_up(marker, segments)


def _go_on_when_the_parent_ends() -> None:
    """Ask the kernel for SIGCONT when the parent ends (Linux), because a script may have stopped this process."""
    if sys.platform == "linux":
        with suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGCONT), 0, 0, 0)


def _tell_that_it_watches() -> None:
    """Close the output, which our starter waits for before it starts a script."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _was_at_work(heard: Sequence[bytes]) -> bool:
    last = [message for message in heard if message in (IN_GOOD_ORDER, AT_WORK, RESTING)][-1:]
    return last in ([], [AT_WORK])


def clean_up(marker: str, segments: Segments) -> None:
    segments.end(Mark(marker), grace_s=0)
    remove_leftovers(marker)
    segments.remove()  # includes segments of other processes that are gone by now


class Watch:
    """Wait for the end of the process that started the guard, and read its messages until then."""

    def __init__(
        self,
        descriptor: int,
        watched: int,
        controllers: Sequence[ProcessId | None],
        no_parent: ProcessId | None = None,
    ) -> None:
        """Set up the watch. `no_parent` is the watched process if it is not our parent."""
        self._descriptor, self._watched, self._controllers = descriptor, watched, controllers
        self._no_parent = no_parent
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN | select.POLLHUP)
        self._ends = [end for one in controllers if (end := _end_of(one)) is not None]
        for end in self._ends:
            self._poll.register(end, select.POLLIN)
        self._heard = b""
        self._broken = False

    def wait(self) -> list[bytes]:
        """Wait for its end; return its messages: a clean end, files that will be left."""
        while not self._is_over(_LOOK_EVERY_MS):
            if any(one is None or not is_running(one) for one in self._controllers):
                while self._ends:
                    self._poll.unregister(self._ends.pop())
                self._stop_watched()
        while self._listen(0):
            pass
        return self._heard.split(b"\0")

    def _is_over(self, within_ms: int) -> bool:
        """True if the pipe broke or our parent changed.

        A forked child of the watched process may hold the pipe open.
        """
        if self._is_there():
            self._listen(within_ms)
        return self._broken or not self._is_there()

    def _is_there(self) -> bool:
        return is_running(self._no_parent) if self._no_parent else os.getppid() == self._watched

    def _listen(self, within_ms: int) -> bool:
        """Read the pipe; true if data arrived. Returns early when a controller ends."""
        if self._broken or self._descriptor not in [ready for ready, _ in self._poll.poll(within_ms)]:
            return False
        piece = os.read(self._descriptor, 65536)
        self._heard += piece
        self._broken = not piece
        return bool(piece)

    def _stop_watched(self) -> None:
        """Stop the watched process, first as Ctrl-C would, so that it can finish its run in order."""
        for number in (signal.SIGINT, signal.SIGKILL):
            if not self._is_over(0):
                with suppress(ProcessLookupError):
                    os.kill(self._watched, number)
            deadline = time.monotonic() + _STOPS_WITHIN_S
            while not self._is_over(50) and time.monotonic() < deadline:
                pass


def _end_of(process: ProcessId | None) -> int | None:
    """Descriptor that becomes ready when the process ends; None if the kernel has none, or the process is gone."""
    if process is None or not hasattr(os, "pidfd_open"):
        return None
    with suppress(OSError):  # ended already, or an old kernel
        return os.pidfd_open(process.pid)
    return None


if __name__ == "__main__":
    main()
