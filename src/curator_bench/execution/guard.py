"""The guard: a small process that outlives ours and then ends what we started.

It holds the read end of a pipe whose write end only we hold. However we end, the pipe breaks, and the guard ends every
process with our mark. It has its own session, so that a signal to ours does not end it.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from curator_bench.cluster.environment import without_pytest, without_ray
from curator_bench.cluster.shared_memory import files_there
from curator_bench.execution.guard_program import AT_WORK, DETACHED, IN_GOOD_ORDER, RESTING
from curator_bench.measure.processes import GUARD_VARIABLE
from curator_bench.package import SOURCE

_STARTS_WITHIN_S = 15.0
_ENDS_WITHIN_S = 15.0


class Guard:
    """Guard of all processes that carry `marker`."""

    def __init__(self, marker: str, controller: int | None = None, *, detached: bool = False) -> None:
        """Start the guard.

        If `controller`, the process that this one works for, is gone, this process is stopped and ended. With
        `detached` the guard is not our child, because Ray kills the children of its workers in any session.
        """
        read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)  # a script may have filled the pipe and stopped its reader
        source = str(SOURCE)
        env = without_pytest(without_ray(os.environ))
        env[GUARD_VARIABLE] = "1"
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [source, env.get("PYTHONPATH", "")]))
        try:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "curator_bench.execution.guard_program",
                    str(read_end),
                    str(os.getpid()),
                    *([DETACHED] if detached else []),
                    *([str(controller)] if controller else []),
                ],
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=(read_end,),
                start_new_session=True,
                cwd="/",
            )
        finally:
            os.close(read_end)
        self._ready = self._process.stdout
        assert self._process.stdin
        with suppress(OSError), self._process.stdin as standard_input:
            standard_input.write(b"\0".join([marker.encode(), *map(os.fsencode, files_there())]))

    @property
    def pid(self) -> int:
        return self._process.pid

    def will_be_left(self, files: Iterable[Path]) -> None:
        """Announce files in shared memory of processes about to be ended. The guard removes them if we cannot."""
        self._tell(*map(os.fsencode, files))

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Announce that we start processes now, and afterwards that all we started are known by their marks."""
        self._tell(AT_WORK)
        try:
            yield
        finally:
            self._tell(RESTING)

    def wait_until_it_watches(self) -> None:
        """Wait until the guard has started. A script that stopped it earlier could keep it stopped for ever."""
        ready, self._ready = self._ready, None
        if ready is not None:
            with ready:
                select.select([ready], [], [], _STARTS_WITHIN_S)

    def resume(self) -> None:
        """Let the guard go on. A script may have stopped it, and this process may be killed at any time."""
        self._process.send_signal(signal.SIGCONT)

    def dismiss(self) -> None:
        """Announce a clean end. The guard looks for leftovers once more and ends."""
        self._tell(IN_GOOD_ORDER)
        self.wait_until_it_watches()
        with suppress(OSError):
            os.close(self._write_end)
        self.resume()
        try:
            self._process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _tell(self, *messages: bytes) -> None:
        with suppress(OSError):  # the guard is gone or stopped
            os.write(self._write_end, b"".join(message + b"\0" for message in messages))
