"""The program of the guard process (see guard.py).

Arguments: the pipe's descriptor, the process watched, --detached where that must not be our parent, and the process the
watched one works for, when there is one. Its standard input is the mark, which every user of the machine could read
among the arguments, and the list of what is in shared memory that is none of the watched process'.
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
from curator_bench.measure.brands import shed_brand
from curator_bench.measure.processes import Mark, ProcessId, identify, is_running

IN_GOOD_ORDER = b"."
DETACHED = "--detached"
_LOOK_EVERY_MS = 500
_STOPS_WITHIN_S = 2.0
_LOOKS_AFTER_A_KILL, _BETWEEN_LOOKS_S = 3, 0.3


def main() -> None:
    descriptor, watched = int(sys.argv[1]), int(sys.argv[2])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    shed_brand()  # of the cluster that the watched process may be a worker of: its end must not be ours
    told, *names = sys.stdin.buffer.read().split(b"\0")
    marker = told.decode()
    if not marker:  # whoever watches was ended while it started us, and has started nothing else
        return
    segments = Segments(frozenset(Path(os.fsdecode(name)) for name in names if name))
    process = identify(watched)
    if DETACHED in sys.argv and os.fork():
        os._exit(0)
    controllers = [identify(int(pid)) for pid in sys.argv[3:] if pid != DETACHED]
    heard = Watch(descriptor, watched, controllers, process if DETACHED in sys.argv else None).wait()
    segments.note_files(Path(os.fsdecode(message)) for message in heard if message.startswith(b"/"))
    clean_up(marker, segments)
    for _ in range(0 if IN_GOOD_ORDER in heard else _LOOKS_AFTER_A_KILL):
        time.sleep(_BETWEEN_LOOKS_S)  # what was just being started did not carry the mark yet
        clean_up(marker, segments)


def clean_up(marker: str, segments: Segments) -> None:
    segments.end(Mark(marker), grace_s=0)
    remove_leftovers(marker)
    segments.remove()  # also what the processes of others had, if they are gone by now


class Watch:
    """Waits for the end of the process that started the guard, and listens to it until then."""

    def __init__(
        self,
        descriptor: int,
        watched: int,
        controllers: Sequence[ProcessId | None],
        no_parent: ProcessId | None = None,
    ) -> None:
        """`no_parent`: the watched process where it is not our parent."""
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
        """What it said: that it ends in good order, files that will be left."""
        while not self._is_over(_LOOK_EVERY_MS):
            if any(one is None or not is_running(one) for one in self._controllers):
                while self._ends:
                    self._poll.unregister(self._ends.pop())
                self._stop_watched()
        while self._listen(0):
            pass
        return self._heard.split(b"\0")

    def _is_over(self, within_ms: int) -> bool:
        """The pipe breaks, or our parent is another: a forked child of the watched process may hold the pipe open."""
        if self._is_there():
            self._listen(within_ms)
        return self._broken or not self._is_there()

    def _is_there(self) -> bool:
        return is_running(self._no_parent) if self._no_parent else os.getppid() == self._watched

    def _listen(self, within_ms: int) -> bool:
        """Hear what there is; True where there was something. It returns early when a controller ends."""
        if self._broken or self._descriptor not in [ready for ready, _ in self._poll.poll(within_ms)]:
            return False
        piece = os.read(self._descriptor, 65536)
        self._heard += piece
        self._broken = not piece
        return bool(piece)

    def _stop_watched(self) -> None:
        """As Ctrl-C would at first, so that it can put its run in order; nobody waits for it any more."""
        for number in (signal.SIGINT, signal.SIGKILL):
            if not self._is_over(0):
                with suppress(ProcessLookupError):
                    os.kill(self._watched, number)
            deadline = time.monotonic() + _STOPS_WITHIN_S
            while not self._is_over(50) and time.monotonic() < deadline:
                pass


def _end_of(process: ProcessId | None) -> int | None:
    """A descriptor that is ready when the process has ended, so that nobody need look; None where there are none."""
    if process is None or not hasattr(os, "pidfd_open"):
        return None
    with suppress(OSError):  # it has ended; an old kernel
        return os.pidfd_open(process.pid)
    return None


if __name__ == "__main__":
    main()
