"""Runs the same benchmarks on several sides in turns, and collects the values of each round.

Each round of each side is a session of its own. Finished rounds are not measured again, so an interrupted
comparison can be continued.
"""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from curator_bench.errors import BenchError
from curator_bench.hunting.bench import MEASURED, QUIET, no_metric
from curator_bench.hunting.children import pytest_environment, pytest_of, run, scratch_folder, tail_of
from curator_bench.hunting.sides import Side
from curator_bench.values import Entry, Hunt, Scalar
from curator_bench.verdict.gates import number, wanted

if TYPE_CHECKING:
    from curator_bench.store.hunts import HuntedRun
    from curator_bench.verdict.cases import Rules
    from curator_bench.verdict.direction import Better

_ENDS_OF_A_RUN = (0, 1)
"""Exit codes of a pytest that ran everything. With 1 a run did not pass, and the database says which."""
_NOTHING_SELECTED = 5
_OPTION_OF_A_PLUGIN = """
An option that the project's pytest configuration names is of a plugin that is not installed: install what the project's
tests need beside curator-bench."""


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of one benchmark."""

    entry: str
    metric: str


Measured: TypeAlias = Mapping[Series, Mapping[int, float]]
"""Values of each series, by round."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several sides that are measured in turns. The others are compared with the first."""

    sides: Sequence[Side]
    session: str
    database: str
    metrics: tuple[str, ...] = ()
    """Metrics the user named."""
    results: Path | None = None
    """The folder for results; without one, as the matrix says."""

    def finished(self, most: int) -> int:
        """Return how many of the first rounds all sides have finished."""
        ended = self._ended()
        return sum(1 for _ in takewhile(lambda n: self._names(n) <= ended, range(1, most + 1)))

    def measure_round(
        self,
        round_number: int,
        unchecked: set[str],
        tell: Callable[[str], None],
        check: Callable[[Side], None] = lambda _: None,
    ) -> None:
        """Run each side once: in turns A B, B A, A B, so that a drift of the machine affects all alike.

        The unchecked sides are checked after their run.
        """
        ended = self._ended()
        for side in self.sides if round_number % 2 else reversed(self.sides):
            if self._name(side, round_number) not in ended:
                tell(f"{side.name}: round {round_number}")
                self._run(side, round_number, is_checked=side.name in unchecked)
                if round_number == 1:
                    self._refuse_nothing(side)
                if side.name in unchecked:
                    check(side)
                    unchecked.remove(side.name)

    def _names(self, round_number: int) -> set[str]:
        return {self._name(side, round_number) for side in self.sides}

    def _ended(self) -> set[str]:
        """Return the sessions of finished rounds."""
        from curator_bench.store.hunts import ended_in_order
        from curator_bench.store.opening import to_read_if_there

        with to_read_if_there(self.database) as opened:
            if opened is None:
                return set()
            with opened.reading() as connection:
                return ended_in_order(connection, f"{self.session}-", _ENDS_OF_A_RUN)

    def _run(self, side: Side, round_number: int, *, is_checked: bool) -> None:
        results = [f"--bench-results={self.results}"] if self.results else []
        recording = ["--benchmark", "--bench-session", self._name(side, round_number)]
        words = [*pytest_of(side.python), *results, *side.pytest_args, *recording, *QUIET]
        variables = {**side.env, **(side.check_env if is_checked else {})}
        with scratch_folder() as scratch:
            log = scratch / "pytest.log"
            with log.open("wb") as output:
                env = pytest_environment(Hunt.AB, variables, side.python, self.database)
                code = run(words, env=env, cwd=side.folder, output=output)
            if code not in _ENDS_OF_A_RUN:
                raise BenchError(f"{side.name}: {_problem(code, side, tail_of(log))}")

    def _refuse_nothing(self, side: Side) -> None:
        """Raise BenchError if the first round gave no usable value, before the other rounds take their time."""
        runs = self._runs(side, 1)
        if not any(one.verdict in MEASURED for one in runs):
            why = "; ".join(f"{one.entry.name}: {one.verdict}: {one.error or ''}" for one in runs) or "no benchmark ran"
            raise BenchError(f"{side.name}: nothing was measured: {why}")
        measured = {name: value for one in runs if one.verdict in MEASURED for name, value in one.metrics.items()}
        if missing := [name for name in self.metrics if number(measured.get(name)) is None]:
            raise BenchError(f"{side.name}: {'; '.join(no_metric(name, measured) for name in missing)}")

    def _runs(self, side: Side, round_number: int) -> list[HuntedRun]:
        from curator_bench.store.hunts import hunted_runs
        from curator_bench.store.opening import to_read

        with to_read(self.database) as opened, opened.reading() as connection:
            return hunted_runs(connection, self._name(side, round_number))

    def named(self, entry: str) -> str:
        """Return the name by which pytest finds a benchmark: its node id if it is one in Python, else its own."""
        paths = (one.entry.path for one in self._runs(self.sides[0], 1) if one.entry.name == entry)
        path = next(paths, "")
        return f"{path}::{entry}" if path.endswith(".py") else entry

    def _name(self, side: Side, round_number: int) -> str:
        return f"{self.session}-{side.name}-{round_number}"

    def measured(self, rounds: int) -> list[Measured]:
        """Return the values of each side, by round."""
        return [self._measured(side, rounds) for side in self.sides]

    def _measured(self, side: Side, rounds: int) -> Measured:
        import numpy as np

        found: dict[Series, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for number_of_round in range(1, rounds + 1):
            for one in self._runs(side, number_of_round):
                for series, value in _numbers(one) if one.verdict in MEASURED else ():
                    finite = found[series][number_of_round]
                    finite += [value] if math.isfinite(value) else []
        return {
            series: {r: float(np.median(values)) for r, values in by_round.items() if values}
            for series, by_round in found.items()
        }


def _problem(code: int, side: Side, said: str) -> str:
    """Say why a pytest could not run the benchmarks."""
    if code == _NOTHING_SELECTED:
        return f"pytest {shlex.join(side.pytest_args)} selects no benchmark"
    advice = _OPTION_OF_A_PLUGIN if "unrecognized arguments" in said else ""
    return f"pytest ended with exit code {code}:\n{said}{advice}"


def _numbers(one: HuntedRun) -> Iterator[tuple[Series, float]]:
    for name, value in one.metrics.items():
        found = number(value)
        if found is not None:
            yield Series(one.entry.name, name), found


def results_beside(database: str) -> Path:
    """Return the folder for results of commits: beside the database if it is a file, else here."""
    return (Path.cwd() if "://" in database else Path(database).parent) / "results"


def gates_of(entries: Sequence[Entry]) -> dict[Series, Rules]:
    """Return the metrics that requirements of the matrix gate, with their limits."""
    return {
        Series(entry.id, gate.metric): gate.rules
        for entry in entries
        for gate in wanted(entry.requirements, {one.metric: None for one in entry.requirements}, everything=False)
    }


def metrics_to_compare(
    series: Sequence[Series],
    metrics: Sequence[str],
    better: Better | None,
    min_effect: float,
    gates: Mapping[Series, Rules],
) -> dict[Series, Rules]:
    """Return the series to compare: the named metrics; else the gated ones of each benchmark.

    Of a benchmark without gates, these are all metrics with a known direction. Its columns, such as the duration of
    the whole run, count only if there are no others: the more metrics, the more rounds until something is certain.
    """
    from curator_bench.store.hunts import COLUMNS
    from curator_bench.verdict.cases import Rules
    from curator_bench.verdict.direction import better_of

    if metrics:
        return {one: Rules(better or better_of(one.metric), min_effect) for one in series if one.metric in metrics}
    with_gates = {one.entry for one in series if one in gates}
    per_entry: dict[str, dict[str, Scalar]] = defaultdict(dict)
    for one in series:
        if one.entry not in with_gates:
            per_entry[one.entry][one.metric] = 1.0
    chosen = {one: gates[one] for one in series if one in gates}
    for entry, names in per_entry.items():
        known = wanted((), names, everything=True)
        of_its_own = [gate for gate in known if gate.metric not in COLUMNS]
        for gate in of_its_own or known:
            chosen[Series(entry, gate.metric)] = replace(gate.rules, min_effect=min_effect)
    return chosen
