"""Disturbed runs are noticed, quiet ones are not, and gates raise fewer false alarms without missing more.

Runs are put together from half-second samples of real processes (`recorded_disturbances.json`, made by
`record_disturbances.py`), and judged by the real functions.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from curator_bench.measure.machine_counters import ProcessorTime
from curator_bench.measure.witness import Moment, lost_s
from curator_bench.runner.policy import Allowance, GateState, Happened, Next, asks_gates, next_step
from curator_bench.values import Verdict
from curator_bench.verdict.cases import Question, Rules
from curator_bench.verdict.direction import Better
from curator_bench.verdict.disturbance import disturbance, is_machine_disturbed
from curator_bench.verdict.judgement import Word
from curator_bench.verdict.judging import judge

FULL = os.environ.get("CURATOR_BENCH_PROOF") == "full"
RUNS = 2000 if FULL else 200
HISTORIES = 1000 if FULL else 150
RECORDED = Path(__file__).with_name("recorded_disturbances.json")
WORKLOADS = ("one thread", "a worker for each processor", "too many workers", "with pauses")
NEIGHBOURS = ("neighbour, one thread",)
NOISE = 0.02
CONFIRM = 2
HISTORY = 20


@cache
def recorded() -> dict[str, list[dict[str, float]]]:
    document = json.loads(RECORDED.read_text())
    return {name: [one for one in steps if one["at"] > 0.0] for name, steps in document["steps"].items()}


@cache
def recorded_cpus() -> float:
    return float(json.loads(RECORDED.read_text())["cpus"])


def metrics_of(steps: Sequence[dict[str, float]]) -> dict[str, float]:
    """What the witness says of a run of these steps."""
    cpus = recorded_cpus()
    start = Moment(0.0, ProcessorTime(0.0, 0.0, 0.0, 0.0), 0.0, 0.0, 0.0)
    total = {"seconds": 0.0, "cpu_s": 0.0, "others_cpu_s": 0.0, "stolen_s": 0.0, "cpu_wait_for_others_s": 0.0}
    for one in steps:
        machine = ProcessorTime(one["busy_s"], 0.0, 0.0, one["stolen_s"])
        end = Moment(one["at"], machine, one["own_s"], one["ran_s"], one["waited_s"])
        own = max(one["own_s"], one["ran_s"])
        total["seconds"] += one["at"]
        total["cpu_s"] += own
        total["others_cpu_s"] += max(0.0, one["busy_s"] - own)
        total["stolen_s"] += one["stolen_s"]
        total["cpu_wait_for_others_s"] += lost_s(start, end, cpus)
    return {f"machine.{name}": value for name, value in total.items()}


def run_of(chance: random.Random, quiet: str, disturbed: str = "", share: float = 0.0) -> dict[str, float]:
    """Draw a run of 10 to 30 seconds; during this share of it the machine does something else."""
    length = chance.randint(20, 60)
    others = round(share * length)
    steps = chance.choices(recorded()[quiet], k=length - others)
    return metrics_of([*steps, *chance.choices(recorded()[disturbed], k=others)] if others else steps)


def is_marked(metrics: dict[str, float]) -> bool:
    found = disturbance(metrics)
    assert found is not None
    return found.is_disturbed


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_program_that_burns_all_cores_for_a_third_of_a_run_is_noticed(workload: str) -> None:
    chance = random.Random(f"burner {workload}")
    marked = sum(is_marked(run_of(chance, f"quiet, {workload}", f"burner, {workload}", 1 / 3)) for _ in range(RUNS))
    print(f"noticed: {marked / RUNS:.2%} ({workload})")
    assert marked >= 0.95 * RUNS


@pytest.mark.parametrize("case", [*(f"quiet, {workload}" for workload in WORKLOADS), *NEIGHBOURS])
def test_quiet_runs_and_those_with_a_neighbour_on_a_free_core_are_not_marked(case: str) -> None:
    chance = random.Random(case)
    marked = sum(is_marked(run_of(chance, case)) for _ in range(RUNS))
    print(f"marked: {marked / RUNS:.2%} ({case})")
    assert marked <= 0.01 * RUNS


class Machine:
    """Draws runs of one workload, a share of which is disturbed during a third of it or more."""

    def __init__(self, seed: str, disturbed_share: float) -> None:
        self._chance, self._share = random.Random(seed), disturbed_share

    def run(self, change: float = 1.0) -> tuple[float, bool]:
        """Return the measured time, and whether the run is marked as disturbed."""
        chance = self._chance
        during = chance.uniform(1 / 3, 1.0) if chance.random() < self._share else 0.0
        metrics = run_of(chance, "quiet, one thread", "burner, one thread", during)
        ready = metrics["machine.cpu_s"] + metrics["machine.cpu_wait_for_others_s"]
        slowdown = ready / metrics["machine.cpu_s"]
        return 10.0 * change * slowdown * chance.lognormvariate(0.0, NOISE), is_marked(metrics)


def gate_of(machine: Machine, change: float, *, is_apart: bool) -> Word | None:
    """Return the word of a gate, with runs measured again as policy does; disturbed runs count unless `is_apart`."""
    past = [machine.run() for _ in range(HISTORY)]
    history = np.array([value for value, is_one in past if not (is_apart and is_one)])
    newest: list[float] = []
    happened, allowed, word = Happened(), Allowance(confirm=CONFIRM), None
    while True:
        value, is_one = machine.run(change)
        happened = happened.after(Verdict.PASSED, 1.0, is_disturbed=is_apart and is_one)
        if not (is_apart and is_one):
            newest.append(value)
        if newest:
            word = judge([Question(history, np.array(newest), Rules(Better.LESS))])[0].word
        if asks_gates(happened, allowed):
            happened = replace(happened, gates=_STATES.get(word, GateState.PASSED))
        if next_step(happened, allowed).next is Next.JUDGE:
            break
    if not newest or (is_apart and is_machine_disturbed([is_one for _, is_one in past])):
        return Word.INCONCLUSIVE
    return word


_STATES: dict[Word | None, GateState] = {
    Word.REGRESSION: GateState.FAILED,
    Word.INCONCLUSIVE: GateState.INCONCLUSIVE,
}


def words(share: float, change: float, *, is_apart: bool) -> Iterator[Word | None]:
    for number in range(HISTORIES):
        yield gate_of(Machine(f"{share} {change} {number}", share), change, is_apart=is_apart)


def count(share: float, change: float, *, is_apart: bool) -> int:
    return sum(word is Word.REGRESSION for word in words(share, change, is_apart=is_apart))


def test_on_a_machine_disturbed_in_a_quarter_of_its_runs_false_alarms_fall_by_half() -> None:
    before, after = (count(0.25, 1.0, is_apart=apart) for apart in (False, True))
    print(f"false alarms: {before / HISTORIES:.2%} -> {after / HISTORIES:.2%}")
    assert after <= before / 2
    assert before > 0, "nothing to improve, so nothing was proved"


def test_nothing_that_is_found_without_disturbance_is_lost() -> None:
    """On an undisturbed machine the same is found; on a disturbed one no less than where disturbed runs count."""
    quiet = [
        [gate_of(Machine(f"quiet {number}", 0.0), 1.1, is_apart=apart) for apart in (False, True)]
        for number in range(HISTORIES)
    ]
    found = sum(counted is Word.REGRESSION for counted, _ in quiet)
    lost = sum(counted is Word.REGRESSION and apart is not Word.REGRESSION for counted, apart in quiet)
    with_disturbance = [count(0.25, 1.1, is_apart=apart) for apart in (False, True)]
    shares = ", ".join(f"{one / HISTORIES:.1%}" for one in (found, *with_disturbance))
    print(f"10 % found: {shares} (undisturbed; a quarter disturbed, counted; a quarter disturbed, apart); lost: {lost}")
    assert lost == 0
    assert with_disturbance[1] >= with_disturbance[0]


def test_the_recording_has_what_it_says() -> None:
    assert set(recorded()) == {*NEIGHBOURS, *(f"{kind}, {name}" for kind in ("quiet", "burner") for name in WORKLOADS)}
    assert sum(map(len, recorded().values())) >= 100
