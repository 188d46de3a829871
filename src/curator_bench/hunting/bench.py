"""Measures one benchmark some more times in a pytest of its own, and reads its values from the database."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from curator_bench.errors import BenchError
from curator_bench.hunting.benchmarks import entries_of, matrices_here
from curator_bench.hunting.children import pytest_environment, pytest_of, run, scratch_folder, tail_of
from curator_bench.values import Hunt, Scalar, Verdict
from curator_bench.verdict.comparable import Origin
from curator_bench.verdict.gates import number
from curator_bench.verdict.requirements import nearest_names

if TYPE_CHECKING:
    from curator_bench.store.hunts import HuntedRun

MEASURED = (str(Verdict.PASSED), str(Verdict.FAILED))
QUIET = ("-q", "-p", "no:cacheprovider", "--bench-sink", "none", "--bench-confirm", "0")


@dataclass(frozen=True, slots=True)
class Runs:
    """The measurements of one subject."""

    values: tuple[float, ...] = ()
    origin: Origin | None = None
    problem: str = ""
    """The reason why the newest run gave no value; empty if it gave one."""
    is_final: bool = False
    """True if the run finished without the metric, so that another run would not help."""


@dataclass(frozen=True, slots=True)
class Bench:
    """One metric of one entry, and the arguments of the pytest that measures it."""

    entry: str
    metric: str
    database: str
    """A URL or an absolute path, because pytest may be started in another folder."""
    pytest_args: tuple[str, ...] = ()
    reason: str = ""
    folder: Path = field(default_factory=Path.cwd)
    python: str = sys.executable
    env: Mapping[str, str] = field(default_factory=dict)
    hunt: Hunt = Hunt.BISECT

    def measure(self, session: str, count: int) -> str:
        """Start pytest for up to `count` more runs; a Python benchmark runs once.

        Returns an error text, which is empty if all went well.
        """
        code, said = self._run(session, ["--bench-runs", str(count)])
        return f"pytest ended with exit code {code}:\n{said}" if code else ""

    def profile(self, session: str, options: Sequence[str]) -> str:
        """Start pytest for one run with these options of profiles, and return what it said last."""
        return self._run(session, options)[1]

    def _run(self, session: str, options: Sequence[str]) -> tuple[int, str]:
        with scratch_folder() as scratch:
            log = scratch / "pytest.log"
            with log.open("wb") as output:
                code = run(
                    [*self._words(session), *options],
                    env=pytest_environment(self.hunt, self.env, self.python, self.database),
                    cwd=self.folder,
                    output=output,
                )
            return code, tail_of(log)

    def refuse_unknown(self) -> None:
        """Raise BenchError for a name that is not known, but close to one that is."""
        from curator_bench.store.hunts import COLUMNS, recorded_metrics, recorded_names
        from curator_bench.store.opening import to_read_if_there

        names, metrics = self._entries_here(), list[str]()
        with to_read_if_there(self.database) as opened:
            if opened is not None:
                with opened.reading() as connection:
                    names |= recorded_names(connection)
                    metrics = recorded_metrics(connection, self.entry)
        if self.entry not in names and (near := nearest_names(self.entry, sorted(names))):
            raise BenchError(f"--entry: there is no {self.entry!r}; did you mean {', '.join(map(repr, near))}?")
        if self.metric not in (*metrics, *COLUMNS) and (near := nearest_names(self.metric, metrics)):
            meant = f"did you mean {', '.join(map(repr, near))}? If it is new, record a run with it first"
            raise BenchError(f"--metric: {self.entry} has not measured {self.metric!r}; {meant}")

    def _entries_here(self) -> set[str]:
        """Return the names and ids of the entries that pytest would run, as far as they can be read."""
        return {name for entry in entries_of(self.pytest_args, self.folder) for name in (entry.id, entry.name)}

    def _words(self, session: str) -> list[str]:
        chosen = [] if "::" in self.entry else ["--bench-entries", self.entry]
        recording = ["--benchmark", "--bench-session", session]
        reason = ["--bench-reason", self.reason]
        return [*pytest_of(self.python), *self._places(), *chosen, *recording, *reason, *QUIET]

    def _places(self) -> Sequence[str]:
        if self.pytest_args:
            return self.pytest_args
        if "::" in self.entry:
            return [self.entry]
        if found := matrices_here(self.folder):
            return [*map(str, found)]
        raise BenchError(f"no matrix in {self.folder}: name files for pytest after --")

    def runs(self, session: str) -> Runs:
        """Read the runs of a session from the database."""
        from curator_bench.store.hunts import hunted_runs
        from curator_bench.store.opening import to_read_if_there

        with to_read_if_there(self.database) as opened:
            if opened is None:
                return Runs()
            with opened.reading() as connection:
                found = hunted_runs(connection, session, self.entry)
        self._refuse_several(found)
        values = [value for one in found if (value := self._value(one)) is not None]
        measured = [one for one in found if self._value(one) is not None]
        origin = Origin(measured[-1].entry.name, *_kind(measured[-1])) if measured else None
        if not found:
            return Runs()
        newest = found[-1]
        is_final = newest.verdict in MEASURED and self._value(newest) is None
        return Runs(tuple(values), origin, self._problem(newest), is_final)

    def _refuse_several(self, found: Sequence[HuntedRun]) -> None:
        names = sorted({f"{one.entry.path}::{one.entry.name}" for one in found})
        if len(names) > 1:
            raise BenchError(f"{self.entry!r} is {len(names)} benchmarks; name one of: {', '.join(names)}")

    def _value(self, one: HuntedRun) -> float | None:
        value = number(one.metrics.get(self.metric)) if one.verdict in MEASURED else None
        return value if value is not None and math.isfinite(value) else None

    def _problem(self, one: HuntedRun) -> str:
        if one.verdict not in MEASURED:
            return f"{one.verdict}: {one.error or 'it said nothing'}".splitlines()[0]
        if self._value(one) is None:
            return no_metric(self.metric, one.metrics)
        return ""


def no_metric(metric: str, metrics: Mapping[str, Scalar]) -> str:
    if metric in metrics:
        return f"{metric} is no number"
    near = nearest_names(metric, [name for name, value in metrics.items() if number(value) is not None])
    return f"there is no metric {metric!r}{'; nearest: ' + ', '.join(near) if near else ''}"


def _kind(one: HuntedRun) -> tuple[str | None, str | None]:
    return one.series_hash, one.machine_id
