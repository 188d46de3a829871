"""A nightly session: gets the record, runs benchmarks against it, adds their runs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from curator_bench.hunting.children import Stopped, environment, run
from curator_bench.options.settings import HUNT_DATABASE_VARIABLE
from curator_bench.sharing.record import Record
from curator_bench.sharing.working_copy import WorkingCopy

NOTHING_RAN = (4, 5)
"""Exit codes of a pytest that ran nothing: a mistake in the arguments or a matrix, no benchmark selected."""


@dataclass(frozen=True, slots=True)
class Night:
    """A nightly session and the folder of its results."""

    record: Record
    work: Path
    confirm: int
    reason: str
    pytest_args: tuple[str, ...]

    @property
    def _copy(self) -> WorkingCopy:
        return WorkingCopy(self.record, self.work)

    def measure(self) -> int:
        """Run pytest against the record, and add what it recorded. Returns pytest's exit code.

        Runs are also added after Ctrl-C or SIGTERM, which is raised again.
        """
        copy = self._copy
        copy.begin()
        try:
            code = run(self._words(), env=self._environment(), cwd=Path.cwd())
        except Stopped:
            copy.add()
            raise
        if code not in NOTHING_RAN:
            copy.add()
        return code

    def _words(self) -> list[str]:
        gates = ("--bench-fail-on", "regression", "--bench-confirm", str(self.confirm))
        recorded = ("--benchmark", f"--bench-results={self.work}", "--bench-reason", self.reason)
        return [sys.executable, "-m", "pytest", *self.pytest_args, *recorded, *gates]

    def _environment(self) -> dict[str, str]:
        return environment({HUNT_DATABASE_VARIABLE: self._copy.database})
