"""The guard: a small process that outlives ours, and ends what ours has started when ours is gone.

It holds the read end of a pipe whose write end only we hold. However we end, the pipe breaks, and the guard ends every
process that carries our mark. It has a session of its own, so that what ends us does not end it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from curator_bench.cluster.environment import CLUSTER_VARIABLE, without_ray
from curator_bench.cluster.shared_memory import files_there
from curator_bench.execution.guard_program import DETACHED, IN_GOOD_ORDER
from curator_bench.package import SOURCE


class Guard:
    """Watches over all processes of this process that carry `marker`."""

    def __init__(self, marker: str, controller: int | None = None, *, detached: bool = False) -> None:
        """`controller`: the process that this one works for. When that is gone, this one is told to stop, and ended.

        `detached`: it is no child of ours either. Ray kills the children of its workers, whatever their session.
        """
        read_end, self._write_end = os.pipe()
        source = str(SOURCE)
        env = without_ray({name: value for name, value in os.environ.items() if name != CLUSTER_VARIABLE})
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
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(read_end,),
                start_new_session=True,
                cwd="/",
            )
        finally:
            os.close(read_end)
        assert self._process.stdin
        with suppress(OSError), self._process.stdin as told:
            told.write(b"\0".join([marker.encode(), *map(os.fsencode, files_there())]))

    @property
    def pid(self) -> int:
        return self._process.pid

    def will_be_left(self, files: Iterable[Path]) -> None:
        """In shared memory, by processes that are about to be ended: the guard removes them if we cannot."""
        self._tell(*map(os.fsencode, files))

    def dismiss(self) -> None:
        """We end in good order: the guard looks once more for what is left, and ends."""
        self._tell(IN_GOOD_ORDER)
        with suppress(OSError):
            os.close(self._write_end)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(15)

    def _tell(self, *messages: bytes) -> None:
        with suppress(OSError):  # it is gone
            os.write(self._write_end, b"".join(message + b"\0" for message in messages))
