"""The copy of the record that a job works on, and adds to the record afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from curator_bench.errors import BenchError
from curator_bench.files.planted import refuse_planted_on_the_way
from curator_bench.sharing.record import Record


@dataclass(frozen=True, slots=True)
class WorkingCopy:
    """A database in a folder; for a record on a server, the server itself."""

    record: Record
    folder: Path

    @property
    def database(self) -> str:
        """The path or URL to read and to record into."""
        return self.record.url if self.record.is_server else str(self.folder.absolute() / "benchmark.db")

    def begin(self, *, is_fresh: bool = False) -> None:
        """Make the folder, and bring the copy up to date. Raises BenchError.

        A copy that is there keeps its runs, which may not have reached the record, unless a fresh one is asked for.
        """
        try:
            refuse_planted_on_the_way(self.folder)
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BenchError(f"{error.filename} cannot be used: {error.strerror}") from error
        if self.record.is_server:
            return
        if is_fresh or not Path(self.database).exists():
            self.record.get(Path(self.database))
            return
        with self.record.opened() as record:  # runs of an earlier job may not have reached the record
            if record is not None:
                self.record.merge_quietly([record], self.database)

    def add(self) -> None:
        """Add what the copy has to the record. Raises BenchError, which says how to do it later."""
        if self.record.is_server or not Path(self.database).exists():
            return
        try:
            self.record.add([self.database])
        except BenchError as error:
            later = f"the runs are in {self.database}; to add them later: curator-bench record add RECORD DATABASE"
            raise BenchError(f"{error}\n{later}") from error
