"""Runs the same benchmarks in several environments in turns, and collects the values of each round.

Each round of each environment is a session of its own. Finished rounds are not measured again, so an interrupted
comparison can be continued.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from curator_bench.errors import BenchError
from curator_bench.hunting.bench import MEASURED, QUIET, no_metric
from curator_bench.hunting.children import pytest_environment, pytest_of, run, scratch_folder, tail_of
from curator_bench.hunting.environments import Environment
from curator_bench.hunting.session_names import key_of
from curator_bench.values import Hunt
from curator_bench.verdict.gates import number, wanted

if TYPE_CHECKING:
    from curator_bench.store.hunts import HuntedRun
    from curator_bench.verdict.cases import Rules
    from curator_bench.verdict.direction import Better
    from curator_bench.verdict.judgement import Judgement
    from curator_bench.verdict.rounds import Rounds

_ENDS_OF_A_RUN = (0, 1)
"""Exit codes of a pytest that ran everything. With 1 a run did not pass, and the database says which."""
AGAIN = "again"


def comparison_key(environments: Sequence[Environment], pytest_args: Sequence[str], folder: Path) -> str:
    """Return a key of the environments, arguments and code.

    Earlier rounds are used only for an equal key.
    """
    from curator_bench.provenance.git import contents

    sides = [part for one in environments for part in one.parts()]
    return key_of([*sides, *pytest_args, str(folder), contents(folder)])


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of one benchmark."""

    entry: str
    metric: str


Measured: TypeAlias = Mapping[Series, Mapping[int, float]]
"""Values of each series, by round."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The difference of an environment from the first one in a metric."""

    series: Series
    environment: str
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several environments. The others are compared with the first, and so is a second measurement of the first."""

    environments: Sequence[Environment]
    session: str
    database: str
    pytest_args: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    """Metrics the user named."""
    folder: Path = field(default_factory=Path.cwd)

    @property
    def sides(self) -> list[Environment]:
        """All environments, with the first one again at the end.

        A difference between the two is noise that the judgement did not expect.
        """
        first = self.environments[0]
        return [*self.environments, replace(first, name=f"{first.name}-{AGAIN}")]

    def is_complete(self, rounds: int) -> bool:
        """True if all rounds are measured."""
        return self._missing(rounds) == 0

    def _missing(self, rounds: int) -> int:
        names = {self._name(side, number) for side in self.sides for number in range(1, rounds + 1)}
        return len(names - self._ended())

    def measure(self, rounds: int, tell: Callable[[str], None]) -> None:
        """Run the missing rounds."""
        from curator_bench.verdict.sequential import interleaved

        ended, done = self._ended(), defaultdict[int, int](int)
        if ended:
            total = rounds * len(self.sides)
            known = f"{total - self._missing(rounds)} of {total} rounds are measured"
            tell(f"continuing {self.session}-…: {known} (--fresh starts again)")
        for place in interleaved(len(self.sides), rounds):
            done[place] += 1
            if self._name(self.sides[place], done[place]) in ended:
                continue
            tell(f"{self.sides[place].name}: round {done[place]} of {rounds}")
            self._run(self.sides[place], done[place])
            if done[place] == 1:
                self._refuse_nothing(self.sides[place])

    def _ended(self) -> set[str]:
        """Return the sessions of finished rounds."""
        from curator_bench.store.hunts import ended_in_order
        from curator_bench.store.opening import to_read_if_there

        with to_read_if_there(self.database) as opened:
            if opened is None:
                return set()
            with opened.reading() as connection:
                return ended_in_order(connection, f"{self.session}-", _ENDS_OF_A_RUN)

    def _run(self, side: Environment, round_number: int) -> None:
        overlays = [f"--bench-matrix={overlay}" for overlay in side.overlays]
        recording = [
            "--benchmark",
            "--bench-session",
            self._name(side, round_number),
        ]
        words = [*pytest_of(side.python), *self.pytest_args, *overlays, *recording, *QUIET]
        with scratch_folder() as scratch:
            log = scratch / "pytest.log"
            with log.open("wb") as output:
                env = pytest_environment(Hunt.AB, side.env, side.python, self.database)
                code = run(words, env=env, cwd=self.folder, output=output)
            if code not in _ENDS_OF_A_RUN:
                raise BenchError(f"{side.name}: pytest ended with exit code {code}:\n{tail_of(log)}")

    def _refuse_nothing(self, side: Environment) -> None:
        """Raise BenchError if the first round gave no usable value, before the other rounds take their time."""
        runs = self._runs(side, 1)
        if not any(one.verdict in MEASURED for one in runs):
            why = "; ".join(f"{one.entry.name}: {one.verdict}: {one.error or ''}" for one in runs) or "no benchmark ran"
            raise BenchError(f"{side.name}: nothing was measured: {why}")
        measured = {name: value for one in runs if one.verdict in MEASURED for name, value in one.metrics.items()}
        if missing := [name for name in self.metrics if number(measured.get(name)) is None]:
            raise BenchError(f"{side.name}: {'; '.join(no_metric(name, measured) for name in missing)}")

    def _runs(self, side: Environment, round_number: int) -> list[HuntedRun]:
        from curator_bench.store.hunts import hunted_runs
        from curator_bench.store.opening import to_read

        with to_read(self.database) as opened, opened.reading() as connection:
            return hunted_runs(connection, self._name(side, round_number))

    def _name(self, side: Environment, round_number: int) -> str:
        return f"{self.session}-{side.name}-{round_number}"

    def measured(self, rounds: int) -> list[Measured]:
        """Return the values of each side, by round."""
        return [self._measured(side, rounds) for side in self.sides]

    def _measured(self, side: Environment, rounds: int) -> Measured:
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


def _numbers(one: HuntedRun) -> Iterator[tuple[Series, float]]:
    for name, value in one.metrics.items():
        found = number(value)
        if found is not None:
            yield Series(one.entry.name, name), found


def directions(series: Sequence[Series], metrics: Sequence[str], better: Better | None) -> dict[Series, Better | None]:
    """Return the series to compare, with their directions: the named metrics, or all with a direction."""
    from curator_bench.verdict.direction import better_of

    if metrics:
        return {one: better or better_of(one.metric) for one in series if one.metric in metrics}
    per_entry: dict[str, dict[str, float]] = defaultdict(dict)
    for one in series:
        per_entry[one.entry][one.metric] = 1.0
    known = {
        (entry, gate.metric): gate.rules.better
        for entry, names in per_entry.items()
        for gate in wanted((), names, everything=True)
    }
    return {one: known[one.entry, one.metric] for one in series if (one.entry, one.metric) in known}


def answers(
    first: Measured,
    other: Measured,
    name: str,
    chosen: Mapping[Series, Better | None],
    min_effect: float,
) -> list[Answer]:
    """Judge one environment against the first, metric by metric.

    Metrics that fewer than three rounds of both have measured are left out.
    """
    from curator_bench.verdict.cases import Rules
    from curator_bench.verdict.judgement import Unjudged
    from curator_bench.verdict.rounds import compare_rounds

    asked = [
        _rounds(first.get(series, {}), other.get(series, {}), Rules(better, min_effect))
        for series, better in chosen.items()
    ]
    return [
        Answer(series, name, judgement)
        for series, judgement in zip(chosen, compare_rounds(asked), strict=True)
        if judgement.unjudged is not Unjudged.NO_HISTORY
    ]


def _rounds(first: Mapping[int, float], other: Mapping[int, float], rules: Rules) -> Rounds:
    """Return the values of the rounds that both sides have, so that equal rounds are compared."""
    import numpy as np

    from curator_bench.verdict.rounds import Rounds

    both = sorted(first.keys() & other.keys())
    one, two = (np.array([side[number] for number in both], dtype=np.float64) for side in (first, other))
    return Rounds(one, two, rules)
