"""The child process that stays connected to a shared cluster and empties it between two runs."""

from __future__ import annotations

from pathlib import Path

from curator_bench.cluster.environment import CLUSTER_VARIABLE
from curator_bench.measure.processes import end_processes
from curator_bench.measure.programs import Command, Program

_CONNECTED_WITHIN_S = 60.0
_PATIENCE_S = 3.0
_ANSWERS_WITHIN_S = _PATIENCE_S + 10.0


class Sweeper:
    """Asks for a sweep when a run has ended, and reads the answer before the next run."""

    def __init__(self, python: str, env: dict[str, str], log_path: Path) -> None:
        """`env` has the cluster's address and token, but not its mark: the sweeper is part of no measurement."""
        program = Path(__file__).with_name("sweeper_program.py")
        command = Command(python, program, env, (str(_PATIENCE_S),), log_path, own_mark=env.get(CLUSTER_VARIABLE, ""))
        self._child = Program(command)
        self._asked = 0

    def wait_until_connected(self) -> None:
        try:
            self._child.answer(_CONNECTED_WITHIN_S)
        except BaseException:
            self.end()
            raise

    def begin(self) -> None:
        self._child.ask("sweep")
        self._asked += 1

    def what_is_left(self) -> list[str]:
        """Wait for the sweep; return the actors, jobs and objects that are still there."""
        left: list[str] = []
        while self._asked:
            left = self._child.answer(_ANSWERS_WITHIN_S)["left"]
            self._asked -= 1
        return left

    def end(self) -> None:
        if not end_processes(None, self._child.roots, grace_s=0):
            self._child.end()
