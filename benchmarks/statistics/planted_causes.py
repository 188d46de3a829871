"""Causes planted into a history of many entries on three machines, and how well `curator-bench regressions` finds them.

Each machine measures commits of its own choice. A cause changes one metric, some, or those of twenty entries, from its
commit on, on every machine. What is measured is the command, from its start to its end, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from generated_series import FAMILIES, Floats, Random
from regressions_time import COMMAND, time_of

from curator_bench.store import bulk
from curator_bench.store.database import Database, database_url, open_for_writing
from curator_bench.store.tables import METRICS, RUNS, SESSIONS

MACHINES = ("one", "two", "three")
METRIC_NAMES = ("sort_time_s", "peak_bytes")
NOISES = ("normal", "lognormal")
"""The others have false alarms, as the manual says; here each finding is to be a planted one."""
SIZES = (0.08, 0.4)
SPREADS = (0.005, 0.02)
APART = 10
"""Causes are so many commits apart at least."""
_APART_IN_A_METRIC = 60
_RUNS_AT_ENDS = 12
"""No cause within so many runs of a machine's first and last: a level needs some runs to be one."""
_FIRST = datetime(2025, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Cause:
    """From this commit on, these metrics of these entries are larger by a part, or smaller if it is negative."""

    commit: int
    size: float
    hits: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Size:
    """How large a history is: `runs` of each entry on each machine, of some of the commits."""

    entries: int
    runs: int
    causes: int
    commits: int

    @property
    def edge(self) -> int:
        """No cause within so many commits of either end."""
        return _RUNS_AT_ENDS * self.commits // self.runs

    @property
    def names(self) -> list[str]:
        return [f"entry_{number}" for number in range(self.entries)]


def planted(random: Random, size: Size) -> list[Cause]:
    """Causes that are ten commits apart, the oldest first; the changes of one metric are further apart."""
    free = size.commits - 2 * size.edge - (size.causes - 1) * APART
    places = size.edge + np.sort(random.integers(0, free + 1, size.causes)) + APART * np.arange(size.causes)
    last: dict[tuple[str, str], int] = {}
    return [_cause(random, int(place), size, last) for place in places]


def _cause(random: Random, place: int, size: Size, last: dict[tuple[str, str], int]) -> Cause:
    """A cause at a commit; `last` says where the last change of each metric is."""
    free = [
        hit
        for hit in ((name, metric) for name in size.names for metric in METRIC_NAMES)
        if place - last.get(hit, -_APART_IN_A_METRIC) >= _APART_IN_A_METRIC
    ]
    count = min(int(random.choice([1, 2, 5, 20])), len(free))
    hits = [free[at] for at in random.choice(len(free), count, replace=False)]
    last |= dict.fromkeys(hits, place)
    part = float(random.uniform(*SIZES))
    return Cause(place, part if random.random() < 0.8 else 1 / (1 + part) - 1, frozenset(hits))


def measured_commits(random: Random, size: Size) -> list[list[int]]:
    """For each machine the commits it measured: some of them are the same."""
    return [sorted(random.choice(size.commits, size.runs, replace=False).tolist()) for _ in MACHINES]


def values_of(random: Random, commits: Sequence[int], causes: Sequence[Cause], hit: tuple[str, str]) -> Floats:
    noise = FAMILIES[str(random.choice(NOISES))](random, len(commits), random.uniform(*SPREADS))
    level = float(random.uniform(0.5, 5))
    for cause in causes:
        if hit in cause.hits:
            noise = noise * np.where(np.array(commits) >= cause.commit, 1 + cause.size, 1)
    return level * noise


def make_history(database: Database, size: Size, seed: int) -> list[Cause]:
    """One session for each commit that a machine measured, with all entries."""
    random = np.random.default_rng(seed)
    causes, measured = planted(random, size), measured_commits(random, size)
    sessions = [(machine, commit) for machine, commits in zip(MACHINES, measured, strict=True) for commit in commits]
    with database.writing() as connection:
        connection.execute(SESSIONS.insert(), [_session(number, *one) for number, one in enumerate(sessions, 1)])
        for place, name in enumerate(size.names):
            first = place * len(sessions) + 1
            rows = [_run(first + at, at + 1, name, *one) for at, one in enumerate(sessions)]
            bulk.write(connection, RUNS, rows)
            bulk.write_parts(connection, METRICS, _metrics(random, first, name, measured, causes))
    return causes


def sha(commit: int) -> str:
    return f"{commit:08x}{'0' * 32}"


def _session(number: int, machine: str, commit: int) -> dict[str, Any]:
    name = f"{machine}_{commit}"
    return {"id": number, "uid": name, "name": name, "results_directory": "", "commit": sha(commit)}


_NOTHING = dict.fromkeys(column.name for column in RUNS.columns)


def _run(number: int, session: int, name: str, machine: str, commit: int) -> dict[str, Any]:
    start = _FIRST + timedelta(hours=commit, minutes=MACHINES.index(machine))
    row = {"id": number, "uid": f"r{number}", "session": session, "name": name, "originalname": name, "attempt": 1}
    row |= {"path": "matrix.yaml", "machine_id": machine, "verdict": "passed", "start": start, "end": start}
    return {**_NOTHING, **row, "duration": 1.0}


def _metrics(
    random: Random, first: int, name: str, measured: Sequence[Sequence[int]], causes: Sequence[Cause]
) -> list[tuple[int, str, float, None]]:
    found = []
    for metric in METRIC_NAMES:
        series = [values_of(random, commits, causes, (name, metric)) for commits in measured]
        found += [(first + at, metric, float(value), None) for at, value in enumerate(np.concatenate(series))]
    return sorted(found)


@dataclass(frozen=True, slots=True)
class Score:
    """How well findings are the planted causes."""

    found: int
    """Causes with a finding of their own."""
    split: int
    """Causes in more than one finding."""
    merged: int
    """Findings of two causes that are ten commits apart."""
    false: int
    """Findings of changes that nobody planted."""
    off: int
    """Findings whose commits do not contain that of their cause."""


def score(causes: Sequence[Cause], changes: Sequence[dict[str, Any]]) -> Score:
    """Hold what `regressions --json` prints against the causes."""
    members: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for change in changes:
        members[change["finding"]].append(change)
    of_findings = {name: set(_causes_of(causes, found)) for name, found in members.items()}
    times = [sum(at in found for found in of_findings.values()) for at in range(len(causes))]
    alone = {min(found) for found in of_findings.values() if len(found) == 1}
    return Score(
        found=len(alone),
        split=sum(count > 1 for count in times),
        merged=sum(
            causes[max(found)].commit - causes[min(found)].commit >= APART for found in of_findings.values() if found
        ),
        false=sum(not found for found in of_findings.values()),
        off=sum(
            not _contains(members[name][0]["commits"], causes[at].commit)
            for name, found in of_findings.items()
            for at in found
        ),
    )


def _causes_of(causes: Sequence[Cause], changes: Sequence[dict[str, Any]]) -> Iterator[int]:
    """The causes of changes: of those that hit the metric the nearest, if it is near."""
    for change in changes:
        place = int(change["since"]["commit"][:8], 16)
        hits = [at for at, cause in enumerate(causes) if (change["entry"], change["metric"]) in cause.hits]
        near = min(hits, key=lambda at: abs(causes[at].commit - place), default=None)
        if near is not None and abs(causes[near].commit - place) < _APART_IN_A_METRIC / 2:
            yield near


def _contains(commits: dict[str, str], commit: int) -> bool:
    before, after = (int(commits[end][:8], 16) for end in ("before", "after"))
    return before < commit <= after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, required=True)
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--causes", type=int, required=True)
    parser.add_argument("--commits", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    file = options.scratch / f"history_{options.seed}.db"
    file.unlink(missing_ok=True)
    size = Size(options.entries, options.runs, options.causes, options.commits)
    with open_for_writing(database_url(str(file))) as database:
        causes = make_history(database, size, options.seed)
    command = [sys.executable, "-c", COMMAND, "regressions", "--db", str(file), "--json"]
    took = [time_of(command) for _ in range(options.rounds)]
    found = score(causes, json.loads(took[0][1]))
    figures = {
        "regressions_s": min(seconds for seconds, _ in took),
        "values": options.entries * options.runs * len(MACHINES) * len(METRIC_NAMES),
        **{f"causes_{name}": getattr(found, name) for name in Score.__slots__},
    }
    folder: Path = options.benchmark_results_path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "params.json").write_text("{}")
    (folder / "metrics.json").write_text(json.dumps({"is_success": True, **figures}))
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
