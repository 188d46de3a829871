"""Imported runs as the earlier history of entries that are recorded here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from curator_bench.errors import BenchError
from curator_bench.importing.found_runs import Found, FoundRun, stable_uid
from curator_bench.store.queries import NewestRun


@dataclass(slots=True)
class Continued:
    """A file of entries, and the newest recorded run of each of them by name."""

    path: str
    newest: Mapping[str, NewestRun]
    machine: str | None = None
    """The name that the imported runs have for the machine of the recorded ones; None if they name only one."""
    machines: set[str | None] = field(default_factory=set)
    """Machines of the imported runs so far."""
    without_entry: set[str] = field(default_factory=set)
    """Names of imported benchmarks that have no entry in the file. They stay as they are."""

    def runs(self, found: Iterable[Found]) -> Iterator[Found]:
        """Yield the runs of the machine as runs of the entries. Raises BenchError if there are several machines."""
        everything = list(found)
        self.machines |= {machine_of(one) for one in everything if isinstance(one, FoundRun)} - {None}
        if self.machine is None and len(self.machines) > 1:
            raise BenchError(
                f"these are runs of several machines: {self._named}; name the one of {self.path} by --from-machine"
            )
        for one in everything:
            if not isinstance(one, FoundRun):
                yield one
            elif self.machine in (None, machine_of(one)):
                yield self._continued(one)

    def refuse_unknown_machine(self) -> None:
        """Raise BenchError if no run was of the machine."""
        if self.machine is not None and self.machine not in self.machines:
            raise BenchError(f"no run is of the machine {self.machine!r}; found: {self._named or 'none'}")

    @property
    def _named(self) -> str:
        return ", ".join(sorted(map(str, self.machines)))

    def _continued(self, run: FoundRun) -> FoundRun:
        start = run.record.start
        newest = self.newest.get(start.name)
        if newest is None:
            self.without_entry.add(start.name)
            return run
        changed = replace(
            start,
            path=self.path,
            uid=stable_uid("continued", self.path, start.uid),  # also if it was imported by itself before
            machine_id=newest.machine_id,
            definition_hash=newest.definition_hash,
        )
        return replace(run, record=replace(run.record, start=changed))


def machine_of(run: FoundRun) -> str | None:
    """Return the name of the machine in the file, else its id."""
    return run.record.start.host or run.record.start.machine_id
