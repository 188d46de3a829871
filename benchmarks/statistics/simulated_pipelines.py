"""Pipelines of workers, queues and backpressure, simulated event by event; what they record of their stages comes out.

A stage has workers and a queue of limited length before the next one. A worker starts a task if there is an item for it
and room for its result; else the stage is held back. Each task takes the time of its stage, with noise of its own. A
serial pipeline is the same with all items through one stage before the next begins. In one on shared CPUs, the tasks of
all stages compete for them, the later stages first.
"""

from __future__ import annotations

import argparse
import heapq
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from simulation_program import run

from curator_bench.causes.explanation import Explanation, explain
from curator_bench.causes.matched_stages import StagedRun
from curator_bench.values.stages import Stage, StageKind
from curator_bench.verdict.judgement import Word

SHAPES = ("serial", "streaming", "shared")
Random = np.random.Generator
_START_UP_S, _ITEMS = 2.0, 40
_TASK_NOISE = 0.1
"""Tasks of one stage differ by so much; the noise of a case is that of whole runs beyond it."""


@dataclass(frozen=True, slots=True)
class Case:
    """What differs between two sides, and how much all else scatters."""

    shape: str
    slower: float = 0.2
    """By how much one stage takes longer on the later side; 0 if nothing differs."""
    noise: float = 0.02
    """Scatter of each stage from run to run."""
    common_noise: float = 0.0
    """Scatter of whole runs: all stages of a run together."""
    drifting: float = 0.0
    """Correlation of the common noise of a run with that of the run before."""
    all_slower: float = 0.0
    """By how much every stage takes longer on the later side: another machine."""
    contention: float = 0.0
    """By how much each busy worker slows down the others: shared memory and caches."""
    runs: int = 8


@dataclass(frozen=True, slots=True)
class Pipeline:
    """How long a task of each stage takes, and by how many workers it is executed."""

    shape: str
    seconds: Sequence[float]
    workers: Sequence[int]
    queue: int
    cpus: int
    contention: float = 0.0


@dataclass(slots=True)
class _Log:
    """What happened to one stage."""

    spans: list[tuple[float, float]] = field(default_factory=list)
    waited: float = 0.0
    held: float = 0.0


def make_pipeline(random: Random, case: Case) -> Pipeline:
    """Make a pipeline of 5 to 8 stages, the longest of which takes at most four times as long as the shortest."""
    stages = int(random.integers(5, 9))
    seconds = np.exp(random.uniform(np.log(0.5), np.log(2.0), stages)).tolist()
    workers = random.integers(1, 5, stages).tolist()
    return Pipeline(
        case.shape, seconds, workers, int(random.integers(2, 7)), int(random.integers(2, 5)), case.contention
    )


def sides(random: Random, case: Case) -> tuple[list[StagedRun], list[StagedRun], str]:
    """Simulate the runs of both sides. Also return the name of the slower stage."""
    pipeline = make_pipeline(random, case)
    guilty = int(random.integers(len(pipeline.seconds)))
    factors = [1.0 + case.all_slower] * len(pipeline.seconds)
    factors[guilty] *= 1.0 + case.slower
    changed = replace(pipeline, seconds=[one * more for one, more in zip(pipeline.seconds, factors, strict=True)])
    common = _common_noise(random, case)
    before, after = (
        [simulate(random, _noisy(random, one, case, common[at * case.runs + run])) for run in range(case.runs)]
        for at, one in enumerate((pipeline, changed))
    )
    return before, after, f"stage_{guilty}"


def _common_noise(random: Random, case: Case) -> list[float]:
    found = [float(random.normal())]
    for _ in range(2 * case.runs - 1):
        found.append(case.drifting * found[-1] + (1 - case.drifting**2) ** 0.5 * float(random.normal()))
    return [float(np.exp(case.common_noise * one)) for one in found]


def _noisy(random: Random, pipeline: Pipeline, case: Case, common: float) -> Pipeline:
    own = np.exp(random.normal(0, case.noise, len(pipeline.seconds))) * common
    return replace(pipeline, seconds=[one * more for one, more in zip(pipeline.seconds, own.tolist(), strict=True)])


def simulate(random: Random, pipeline: Pipeline) -> StagedRun:
    """Run all items through the pipeline, and return what is recorded of it."""
    logs = [_Log() for _ in pipeline.seconds]
    begin = _START_UP_S * float(np.exp(random.normal(0, 0.02)))
    end = _Run(random, pipeline, logs, begin).run()
    stages = tuple(_recorded(f"stage_{number}", log, pipeline) for number, log in enumerate(logs))
    cpus = float(pipeline.cpus if pipeline.shape == "shared" else sum(pipeline.workers))
    return StagedRun(stages=stages, wall_s=end + 0.3 * float(np.exp(random.normal(0, 0.02))), cpus=cpus)


class _Run:
    """One run of a pipeline: a queue of the ends of tasks, in the order of their times."""

    def __init__(self, random: Random, pipeline: Pipeline, logs: Sequence[_Log], begin: float) -> None:
        self._random, self._pipeline, self._logs = random, pipeline, logs
        self._now = begin
        count = len(pipeline.seconds)
        self._noise = np.exp(random.normal(0, _TASK_NOISE, (count, _ITEMS))).tolist()
        self._queues: list[list[float]] = [[] for _ in range(count)]  # when each waiting item arrived
        self._queues[0] = [begin] * _ITEMS
        self._busy = [0] * count
        self._begun, self._done = [0] * count, [0] * count
        self._held_since: list[float | None] = [None] * count
        self._ends: list[tuple[float, int]] = []

    def run(self) -> float:
        self._start_tasks()
        while self._ends:
            self._now, stage = heapq.heappop(self._ends)
            self._busy[stage] -= 1
            self._done[stage] += 1
            if stage + 1 < len(self._queues):
                self._queues[stage + 1].append(self._now)
            self._start_tasks()
        return self._now

    def _start_tasks(self) -> None:
        for stage in reversed(range(len(self._queues))):
            while self._queues[stage] and self._has_worker(stage):
                if self._is_held(stage):
                    self._hold(stage)
                    break
                self._start(stage)

    def _has_worker(self, stage: int) -> bool:
        if self._pipeline.shape == "shared":
            return sum(self._busy) < self._pipeline.cpus
        if self._pipeline.shape == "serial" and stage and self._done[stage - 1] < _ITEMS:
            return False
        return self._busy[stage] < self._pipeline.workers[stage]

    def _is_held(self, stage: int) -> bool:
        """Tell whether there is no room for one more result."""
        if self._pipeline.shape == "serial" or stage + 1 == len(self._queues):
            return False
        return self._busy[stage] + len(self._queues[stage + 1]) >= self._pipeline.queue + self._pipeline.workers[stage]

    def _hold(self, stage: int) -> None:
        if self._held_since[stage] is None:
            self._held_since[stage] = self._now

    def _start(self, stage: int) -> None:
        log = self._logs[stage]
        if (since := self._held_since[stage]) is not None:
            log.held += self._now - since
            self._held_since[stage] = None
        log.waited += self._now - self._queues[stage].pop(0)
        crowded = 1.0 + self._pipeline.contention * sum(self._busy)
        took = self._pipeline.seconds[stage] * self._noise[stage][self._begun[stage]] * crowded
        self._begun[stage] += 1
        self._busy[stage] += 1
        log.spans.append((self._now, self._now + took))
        heapq.heappush(self._ends, (self._now + took, stage))


def _recorded(name: str, log: _Log, pipeline: Pipeline) -> Stage:
    return Stage(
        name=name,
        kind=StageKind.OPERATOR,
        count=len(log.spans),
        started_s=min(start for start, _ in log.spans),
        ended_s=max(end for _, end in log.spans),
        active_s=_union(log.spans),
        executing_s=sum(end - start for start, end in log.spans),
        waiting_s=log.waited,
        backpressure_s=None if pipeline.shape == "serial" else log.held,
    )


def _union(spans: Sequence[tuple[float, float]]) -> float:
    total, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(end - max(start, until), 0.0)
        until = max(until, end)
    return total


def named_of(found: Explanation) -> list[str]:
    return [stage.name for stage in found.named]


def measure(case: Case, seeds: int, *, first: int = 0) -> dict[str, float]:
    """Explain the differences of so many pairs of sides, and count what was named."""
    counts = dict.fromkeys(("named_first", "others_named", "any_named", "shared_said"), 0)
    left: list[float] = []
    spent = 0.0
    for seed in range(first, first + seeds):
        before, after, guilty = sides(np.random.default_rng([seed, SHAPES.index(case.shape)]), case)
        began = time.process_time()
        found = explain(before, after)
        spent += time.process_time() - began
        named = named_of(found)
        counts["named_first"] += named[:1] == [guilty]
        counts["others_named"] += any(name != guilty for name in named)
        counts["any_named"] += bool(named)
        counts["shared_said"] += found.shared is not None and found.shared.word is Word.REGRESSION
        left.append(abs(found.unexplained.value) / found.wall.before)
    shares = {name: count / seeds for name, count in counts.items()}
    return {**shares, "unexplained_median": float(np.median(left)), "explain_ms": 1000 * spent / seeds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--runs", type=int, default=8)
    numbers = ("slower", "noise", "common-noise", "drifting", "all-slower", "contention")
    run(parser, Case("serial"), numbers, measure)


if __name__ == "__main__":
    main()
