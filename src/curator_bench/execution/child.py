"""One child process of a run: started with its output in a file, waited for without waking up, ended with its tree."""

from __future__ import annotations

import os
import secrets
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from curator_bench import interrupts
from curator_bench.cluster.shared_memory import Segments
from curator_bench.errors import BenchError
from curator_bench.measure.brands import brand
from curator_bench.measure.processes import RUN_VARIABLE, Mark, ProcessId, find_processes, identify

EXECUTION_VARIABLE = "CURATOR_BENCH_EXECUTION"
_TERM_GRACE_S = 5.0
_LEFTOVER_GRACE_S = 1.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended. `exit_code` is None when it was stopped at its timeout."""

    exit_code: int | None
    seconds: float


class Child:
    """A program in a session of its own, known by a mark and a brand that its descendants inherit."""

    def __init__(
        self, words: Sequence[str], *, env: Mapping[str, str], log: Path, cwd: str, keep_open: Sequence[int] = ()
    ) -> None:
        """`keep_open`: descriptors of ours that it and its descendants hold until they end."""
        self.mark = Mark(secrets.token_hex(8), EXECUTION_VARIABLE)
        self._segments = Segments()
        self.started = time.monotonic()
        with log.open("wb") as output:
            try:
                self._process = subprocess.Popen(
                    list(words),
                    env={**env, **self.mark.environment()},
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=keep_open,
                )
            except ValueError as error:  # a NUL in a word, a "=" in the name of a variable
                raise BenchError(f"the command cannot be started: {error}") from None
        brand(self._process.pid, run=env.get(RUN_VARIABLE, ""), own=self.mark.value)
        found = identify(self._process.pid)
        self._seen: frozenset[ProcessId] = frozenset([found]) if found else frozenset()

    @property
    def has_ended(self) -> bool:
        """As far as `wait` has seen."""
        return self._process.returncode is not None

    def processes(self) -> frozenset[ProcessId]:
        """The child and all that came of it. What was seen once stays known, whatever it did to leave."""
        self._seen = find_processes(self.mark, self._seen, settle=False)
        return self._seen

    def wait(self, timeout_s: float) -> Ended:
        """Until it ends or its time is over. `end` must follow, whatever happens here."""
        in_time = _wait_for_exit(self._process, timeout_s)
        seconds = time.monotonic() - self.started
        return Ended(self._process.returncode if in_time else None, seconds)

    def end(self) -> None:
        """Ends what is still there of it: politely what was stopped, at once what was left behind."""
        try:
            with interrupts.held():
                self._end(_LEFTOVER_GRACE_S if self.has_ended else _TERM_GRACE_S)
        except KeyboardInterrupt:  # a second Ctrl-C: no more patience, but in order all the same
            self._end(grace_s=0)
            raise

    def _end(self, grace_s: float) -> None:
        self._segments.end(self.mark, self._seen, grace_s=grace_s)
        self._process.wait()


def run_child(
    words: Sequence[str],
    *,
    env: Mapping[str, str],
    log: Path,
    cwd: str,
    timeout_s: float,
    keep_open: Sequence[int] = (),
) -> Ended:
    """Runs a program to its end, or to the end of its time; nothing of it is left."""
    child = Child(words, env=env, log=log, cwd=cwd, keep_open=keep_open)
    try:
        return child.wait(timeout_s)
    finally:
        child.end()


def _wait_for_exit(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Whether it ended in time. Popen.wait would wake up twenty times a second; a descriptor does not."""
    if not hasattr(os, "pidfd_open"):
        return _wait_by_polling(process, timeout_s)
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return _wait_by_polling(process, timeout_s)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            if poll.poll(min(left, 3600) * 1000):
                process.wait()
                return True
        return process.poll() is not None
    finally:
        os.close(descriptor)


def _wait_by_polling(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return False
    return True
