"""The program of the guard process (see guard.py). Arguments: the pipe's descriptor, the mark, the process watched."""

from __future__ import annotations

import os
import select
import signal
import sys

from curator_bench.cluster.temp_dirs import remove_leftovers
from curator_bench.measure.processes import Mark, end_processes

_LOOK_EVERY_MS = 1000


def main() -> None:
    descriptor, marker, watched = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wait_until_gone(descriptor, watched)
    end_processes(Mark(marker), grace_s=0)
    remove_leftovers(marker)


def wait_until_gone(descriptor: int, watched: int) -> None:
    """Until the pipe breaks, or our parent is another: a forked child of the watched process may hold the pipe open."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN | select.POLLHUP)
    while os.getppid() == watched:
        if poll.poll(_LOOK_EVERY_MS):
            return


if __name__ == "__main__":
    main()
