"""One child process of a run: its output goes to a file, and its whole process tree ends with it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from curator_bench import interrupts
from curator_bench.cluster.shared_memory import Segments
from curator_bench.errors import BenchError
from curator_bench.execution.keeper import Keeper
from curator_bench.execution.terminal import Terminal
from curator_bench.files import safe_files
from curator_bench.measure.limit_marks import brand_of
from curator_bench.measure.processes import RUN_VARIABLE, Mark, ProcessId, find_processes, identify, patience

EXECUTION_VARIABLE = "CURATOR_BENCH_EXECUTION"
_TERM_GRACE_S = 5.0
_LEFTOVER_GRACE_S = 1.0


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a child. `exit_code` is None if it was stopped at its timeout."""

    exit_code: int | None
    seconds: float


class Child:
    """A program in its own session, with a mark and a brand that its descendants inherit.

    Processes that shed both are caught by its keeper.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str],
        log: Path | None,
        cwd: str,
        keep_open: Sequence[int] = (),
        below: Path | None = None,
    ) -> None:
        """Start the program.

        Its output goes to `log`, if given; no link is followed there from the folder `below` on. `keep_open` lists
        descriptors of ours that it and its descendants inherit.
        """
        self.mark = Mark(secrets.token_hex(8), EXECUTION_VARIABLE)
        self._segments = Segments()
        self._terminal = Terminal()
        environment = {**env, **self.mark.environment()}
        with nullcontext() if log is None else safe_files.create_file(log, below=below) as output:
            try:
                self._keeper = Keeper(
                    words,
                    env=environment,
                    cwd=cwd,
                    output=output,
                    keep_open=keep_open,
                    brand=brand_of(run=env.get(RUN_VARIABLE, ""), own=self.mark.value),
                )
            except ValueError as error:  # a NUL in a word, a "=" in the name of a variable
                raise BenchError(f"the command cannot be started: {error}") from None
        self.process = identify(self._keeper.pid)
        """Identity of the process; None if it ended before it could be read."""
        self._seen: frozenset[ProcessId] = frozenset([self.process]) if self.process else frozenset()

    @property
    def pid(self) -> int:
        return self._keeper.pid

    @property
    def has_ended(self) -> bool:
        """True once `wait` has seen the end."""
        return self._keeper.exit_code is not None

    @property
    def waits(self) -> tuple[int, ...]:
        """Pids outside the tree that receive the processor time of processes that ended in it."""
        return (self._keeper.process.pid,) if self._keeper.process else ()

    def processes(self) -> frozenset[ProcessId]:
        """Find the child and its descendants. A process once found stays known."""
        self._seen = find_processes(self.mark, self._seen, settle=False, under=self._keeper.process)
        return self._seen

    def wait(self, timeout_s: float) -> Ended:
        """Wait until it ends or its time is over. `end` must be called in any case."""
        self._keeper.wait(self._keeper.started + timeout_s)
        return Ended(self._keeper.exit_code, self._keeper.seconds)

    def wait_for(self, seconds: float) -> bool:
        """Wait some seconds from now; true once it has ended."""
        return self._keeper.wait(time.monotonic() + seconds)

    def end(self, *, grace_s: float | None = None) -> None:
        """End what is left of it: with time to react if it was stopped, quickly if it ended itself and left processes
        behind."""
        if grace_s is None:
            grace_s = patience(_LEFTOVER_GRACE_S if self.has_ended else _TERM_GRACE_S)
        try:
            with interrupts.held():
                self._end(grace_s)
        except KeyboardInterrupt:  # a second Ctrl-C: kill without waiting, still in order
            self._end(grace_s=0)
            raise

    def _end(self, grace_s: float) -> None:
        self._segments.end(self.mark, self._seen, grace_s=grace_s, under=self._keeper.process)
        self._keeper.end()
        self._terminal.restore()


def run_child(
    words: Sequence[str],
    *,
    env: Mapping[str, str],
    log: Path,
    cwd: str,
    timeout_s: float,
    keep_open: Sequence[int] = (),
    below: Path | None = None,
) -> Ended:
    """Run a program until it ends or its time is over. No process of it is left."""
    child = Child(words, env=env, log=log, cwd=cwd, keep_open=keep_open, below=below)
    try:
        return child.wait(timeout_s)
    finally:
        child.end()
