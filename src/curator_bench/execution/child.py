"""One child process of a run: started with its output in a file, waited for without waking up, ended with its tree."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from curator_bench import interrupts, safe_files
from curator_bench.cluster.shared_memory import Segments
from curator_bench.errors import BenchError
from curator_bench.execution.keeper import Keeper
from curator_bench.measure.brands import brand_of
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
    """A program in a session of its own, known by a mark and a brand that its descendants inherit.

    Its keeper has what sheds both.
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
        """`log`: where it prints to, if anywhere; `below`: the folder from which on no link leads there.

        `keep_open`: descriptors of ours that it and its descendants hold until they end.
        """
        self.mark = Mark(secrets.token_hex(8), EXECUTION_VARIABLE)
        self._segments = Segments()
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
        """None where it had ended before it could be looked at."""
        self._seen: frozenset[ProcessId] = frozenset([self.process]) if self.process else frozenset()

    @property
    def has_ended(self) -> bool:
        """As far as `wait` has seen."""
        return self._keeper.exit_code is not None

    @property
    def waits(self) -> tuple[int, ...]:
        """The process outside the tree to which the processor time of what ended in it is added."""
        return (self._keeper.process.pid,) if self._keeper.process else ()

    def processes(self) -> frozenset[ProcessId]:
        """The child and all that came of it. What was seen once stays known, whatever it did to leave."""
        self._seen = find_processes(self.mark, self._seen, settle=False, under=self._keeper.process)
        return self._seen

    def wait(self, timeout_s: float) -> Ended:
        """Until it ends or its time is over. `end` must follow, whatever happens here."""
        self._keeper.wait(self._keeper.started + timeout_s)
        return Ended(self._keeper.exit_code, self._keeper.seconds)

    def end(self, *, grace_s: float | None = None) -> None:
        """Ends what is still there of it: politely what was stopped, at once what was left behind."""
        if grace_s is None:
            grace_s = _LEFTOVER_GRACE_S if self.has_ended else _TERM_GRACE_S
        try:
            with interrupts.held():
                self._end(grace_s)
        except KeyboardInterrupt:  # a second Ctrl-C: no more patience, but in order all the same
            self._end(grace_s=0)
            raise

    def _end(self, grace_s: float) -> None:
        self._segments.end(self.mark, self._seen, grace_s=grace_s, under=self._keeper.process)
        self._keeper.end()


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
    """Runs a program to its end, or to the end of its time; nothing of it is left."""
    child = Child(words, env=env, log=log, cwd=cwd, keep_open=keep_open, below=below)
    try:
        return child.wait(timeout_s)
    finally:
        child.end()
