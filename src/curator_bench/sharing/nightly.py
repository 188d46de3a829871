"""A nightly session: gets the record, runs benchmarks against it, adds their runs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from curator_bench.errors import BenchError
from curator_bench.files.planted import refuse_planted_on_the_way
from curator_bench.hunting.children import Stopped, environment, run
from curator_bench.options.settings import HUNT_DATABASE_VARIABLE
from curator_bench.sharing.record import Record

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
    def database(self) -> str:
        """The database that pytest records into: a copy of the record, or the server itself."""
        return self.record.url if self.record.is_server else str(self.work.absolute() / "benchmark.db")

    def measure(self) -> int:
        """Run pytest against the record, and add what it recorded. Returns pytest's exit code.

        Runs are also added after Ctrl-C or SIGTERM, which is raised again.
        """
        self._make_folder()
        if not self.record.is_server:
            self._start_from_the_record()
        try:
            code = run(self._words(), env=self._environment(), cwd=Path.cwd())
        except Stopped:
            self._add()
            raise
        if code not in NOTHING_RAN:
            self._add()
        return code

    def _make_folder(self) -> None:
        try:
            refuse_planted_on_the_way(self.work)
            self.work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BenchError(f"{error.filename} cannot be used: {error.strerror}") from error

    def _start_from_the_record(self) -> None:
        if not Path(self.database).exists():
            self.record.get(Path(self.database))
            return
        with self.record.opened() as record:  # runs of an earlier night may not have reached the record
            if record is not None:
                self.record.merge_quietly([record], self.database)

    def _words(self) -> list[str]:
        gates = ("--bench-fail-on", "regression", "--bench-confirm", str(self.confirm))
        recorded = ("--benchmark", f"--bench-results={self.work}", "--bench-reason", self.reason)
        return [sys.executable, "-m", "pytest", *self.pytest_args, *recorded, *gates]

    def _environment(self) -> dict[str, str]:
        return environment({HUNT_DATABASE_VARIABLE: self.database})

    def _add(self) -> None:
        if self.record.is_server or not Path(self.database).exists():
            return
        try:
            self.record.add([self.database])
        except BenchError as error:
            later = f"the runs are in {self.database}; to add them later: curator-bench record add RECORD DATABASE"
            raise BenchError(f"{error}\n{later}") from error
