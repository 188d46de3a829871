"""Benchmarks divided into jobs of a CI system that take about equally long.

A job runs what stands in a file of pytest's arguments (`pytest @jobs/job-1.txt`): the session that all jobs share, and
what it runs by exact ids. A plan does not depend on the CI system; `ci_jobs` writes it for one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from curator_bench import scheduling
from curator_bench.collection.items import NO_ESCAPING, name_of_item
from curator_bench.errors import BenchError
from curator_bench.files import safe_files
from curator_bench.matrix import Definitions
from curator_bench.options.rootdir import Ini, project_of
from curator_bench.store.usual_durations import usual_durations
from curator_bench.values import Entry
from curator_bench.words import how_many, readable_seconds

_SHARED = "all.txt"
_FIRST_ARGUMENT = "--bench-session="
"""The beginning of every file of a job, by which those of an earlier plan are known."""
_UNKNOWN_MODULE_S = 60.0
_UNFINISHED = {None: "not run", "running": "still running, or killed", "interrupted": "interrupted"}
Durations: TypeAlias = Mapping[str, Mapping[str | None, float]]
"""Seconds by node id and definition, as `store.usual_durations` gives them."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Something that one job runs: an entry, or a module of Python benchmarks."""

    nodeid: str
    """The argument of pytest."""
    name: str
    path: str
    """Its file, as the database names it."""
    seconds: float
    """The time it takes: its recorded duration, or its timeout if none is recorded."""
    is_recorded: bool
    longest_s: float
    """Seconds after which it has been ended for certain."""
    shortest_job_s: float = 0.0
    """`min_timeout_s` of its file."""

    @property
    def is_module(self) -> bool:
        return self.name == self.nodeid


@dataclass(frozen=True, slots=True)
class Limits:
    """The longest time of a job, and the part of it that is no benchmark."""

    job_s: float
    set_up_s: float

    @property
    def measuring_s(self) -> float:
        return self.job_s - self.set_up_s

    def timeout_s(self, units: Sequence[Unit]) -> float:
        """Return the timeout of a job: enough for all its entries to reach theirs, unless the limit is shorter."""
        shortest = max((unit.shortest_job_s for unit in units), default=0.0)
        return min(self.job_s, self.set_up_s + max(shortest, sum(unit.longest_s for unit in units)))


@dataclass(frozen=True, slots=True)
class Job:
    """A job: what it runs, and the file that names this to pytest."""

    number: int
    units: tuple[Unit, ...]
    file: str
    seconds: float
    """How long its benchmarks take whose durations are recorded."""
    timeout_s: float
    """For the CI system: after so long, something other than a benchmark hangs."""

    @property
    def recorded(self) -> list[Unit]:
        return [unit for unit in self.units if unit.is_recorded]


@dataclass(frozen=True, slots=True)
class Session:
    """The session that all jobs share, by its name and its uid in the database."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Benchmarks:
    """The entries of matrices, and the modules of Python benchmarks, that are to be divided."""

    entries: Sequence[Entry]
    modules: Sequence[Path]
    working_dir: Path

    def units(self, database: str) -> list[Unit]:
        """Return them with the durations that a database has recorded."""
        if not self.entries and not self.modules:
            return []
        files = [entry.file.file for entry in self.entries]
        project, known = project_of([*files, *self.modules], self.working_dir), usual_durations(database)
        is_escaped = str(project.values.get(NO_ESCAPING, "")).lower() not in ("true", "1", "yes", "on")
        definitions, by_path = Definitions(), _seconds_by_path(known)
        units = [self._of_entry(entry, project, known, definitions, is_escaped) for entry in self.entries]
        return units + [self._of_module(module, project, by_path) for module in self.modules]

    def _of_entry(
        self, entry: Entry, project: Ini, known: Durations, definitions: Definitions, is_escaped: bool
    ) -> Unit:
        path, timeout_s = project.name_of(entry.file.file), entry.timeout_s * (entry.warmup + entry.repeat)
        recorded = known.get(f"{path}::{entry.id}", {})
        seconds = recorded.get(definitions.hash_of(entry), next(iter(recorded.values()), None))
        return Unit(
            nodeid=f"{_relative(entry.file.file, self.working_dir)}::{name_of_item(entry, is_escaped)}",
            name=entry.id,
            path=path,
            seconds=timeout_s if seconds is None else seconds,
            is_recorded=seconds is not None,
            longest_s=timeout_s + (entry.file.cleanup_timeout_s or 0.0),
            shortest_job_s=entry.file.min_timeout_s or 0.0,
        )

    def _of_module(self, module: Path, project: Ini, by_path: Mapping[str, float]) -> Unit:
        nodeid, path = _relative(module, self.working_dir), project.name_of(module)
        seconds = by_path.get(path)
        is_recorded = seconds is not None
        return Unit(nodeid, nodeid, path, seconds or _UNKNOWN_MODULE_S, is_recorded, longest_s=math.inf)


def divided(units: Sequence[Unit], count: int | None, limits: Limits, folder: Path) -> list[Job]:
    """Divide into `count` jobs, or into as few as their limit allows. Raises BenchError if they exceed it.

    If no duration is known, `count` jobs have equally many: timeouts differ more than what benchmarks take.
    """
    _refuse_too_long(units, limits)
    is_known = any(unit.is_recorded for unit in units) or not count
    seconds = [min(unit.seconds, limits.measuring_s) if is_known else 1.0 for unit in units]
    shares = scheduling.divide(seconds, count) if count else scheduling.fewest_shares(seconds, limits.measuring_s)
    recorded = [unit.seconds if unit.is_recorded else 0.0 for unit in units]  # timeouts are seldom reached
    longest = max((sum(recorded[place] for place in share) for share in shares), default=0.0)
    if longest > limits.measuring_s:
        needed = len(scheduling.fewest_shares(recorded, limits.measuring_s))
        raise BenchError(
            f"{how_many(len(shares), 'job')} would take up to {readable_seconds(longest + limits.set_up_s)}, and may"
            f" take {readable_seconds(limits.job_s)} (--limit): {needed} are enough"
        )
    filled = [tuple(units[place] for place in share) for share in shares if share]
    return [_job(number, job, limits, folder / f"job-{number}.txt") for number, job in enumerate(filled, 1)]


def shared(units: Sequence[Unit], count: int, limits: Limits, folder: Path) -> list[Job]:
    """Return jobs that all have everything, longest first: each takes the next that no other has taken."""
    order = scheduling.longest_first([unit.seconds for unit in units])
    queue = tuple(units[place] for place in order)
    jobs = [_job(number, queue, limits, folder / _SHARED) for number in range(1, count + 1)]
    return [replace(job, seconds=job.seconds / count) for job in jobs]


def _job(number: int, units: tuple[Unit, ...], limits: Limits, file: Path) -> Job:
    seconds = sum(unit.seconds for unit in units if unit.is_recorded)
    return Job(number, units, file.as_posix(), seconds, limits.timeout_s(units))


def write_jobs(
    jobs: Sequence[Job], folder: Path, session: Session, options: Sequence[str], *, is_rest: bool = False
) -> None:
    """Write the files of the jobs into a folder, and remove those of an earlier plan.

    The rest of a session replaces no plan of another one. Raises BenchError if that is there.
    """
    own = f"{_FIRST_ARGUMENT}{session.name}\n".encode()
    options = [f"{_FIRST_ARGUMENT}{session.name}", f"--bench-session-uid={session.uid}", *options]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in (*folder.glob("job-*.txt"), *folder.glob(_SHARED)):
            content = safe_files.read_bytes(old)
            if is_rest and jobs and not content.startswith(own):
                raise BenchError(f"{folder} has jobs of another session: name another folder by --out")
            if content.startswith(own if is_rest else _FIRST_ARGUMENT.encode()):
                old.unlink()
        for file, job in {job.file: job for job in jobs}.items():
            lines = [*options, *(unit.nodeid for unit in job.units)]
            safe_files.write_text(folder / Path(file).name, "".join(f"{line}\n" for line in lines))
    except OSError as error:
        raise BenchError(f"{error.filename or folder} cannot be written: {error.strerror or error}") from error


def missing(units: Iterable[Unit], verdicts: Mapping[tuple[str, str], str]) -> list[tuple[Unit, str]]:
    """Return what has no result, and why. `verdicts` are those of a session, by path and name.

    A module counts only if runs of it were recorded before: it may have no benchmark.
    """
    paths = {path for path, _ in verdicts}
    found = []
    for unit in units:
        if unit.is_module:
            why = None if unit.path in paths or not unit.is_recorded else _UNFINISHED[None]
        else:
            why = _UNFINISHED.get(verdicts.get((unit.path, unit.name)))
        found += [(unit, why)] if why else []
    return found


def _relative(file: str | Path, folder: Path) -> str:
    return Path(os.path.relpath(file, folder)).as_posix()


def _seconds_by_path(known: Durations) -> dict[str, float]:
    found: dict[str, float] = {}
    for nodeid, by_definition in known.items():
        path = nodeid.partition("::")[0]
        found[path] = found.get(path, 0.0) + next(iter(by_definition.values()))
    return found


def _refuse_too_long(units: Iterable[Unit], limits: Limits) -> None:
    if limits.measuring_s <= 0:
        raise BenchError(f"--set-up {readable_seconds(limits.set_up_s)} leaves nothing of the limit of a job")
    for unit in units:
        if unit.is_recorded and unit.seconds > limits.measuring_s:
            raise BenchError(
                f"{unit.name} takes {readable_seconds(unit.seconds)}, and a job may take"
                f" {readable_seconds(limits.job_s)} with {readable_seconds(limits.set_up_s)} to set it up: raise"
                " --limit if the CI system allows it, or make it shorter"
            )
