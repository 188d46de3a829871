"""Profiles of simulated programs, one function of which becomes slower: is it named?

A program is a tree of calls with recursion. Its functions share the time by Zipf's law. Some wait, and some functions,
such as one that waits for a lock, are called from many places. Each run is on a machine that is faster or slower as a
whole, each function scatters by its own noise from run to run, and a run is sampled at random.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from simulation_program import run

from curator_bench.causes.profile_difference import ProfileDifference, profile_difference
from curator_bench.values.profiles import WAITING, Profile
from curator_bench.verdict.distributions import Bools, Floats

Random = np.random.Generator
_SHARED = ("threading:wait", "selectors:select", "socket:readinto", "json:encode", "re:sub", "copy:deepcopy")
_SHARED_WAITING = 3
"""The first of them wait, the others compute."""
_DEEPEST = 14
_LEAST_SHARE = 0.02
_SECONDS = 400.0
_RUNS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Case:
    """What differs between two sides, and how much all else scatters."""

    slower: float = 0.3
    """By how much one function takes longer on the later side; 0 if nothing differs."""
    waits: bool | None = None
    """Whether the function waits; None for either."""
    samples: int = 40_000
    """Samples of all runs of a side."""
    noise: float = 0.015
    """Typical scatter of a function from run to run; of some it is twice as much, and waiting scatters more."""
    machine_noise: float = 0.02
    """Scatter of whole runs."""
    machine_slower: float = 0.05
    """By how much one of the sides computes more slowly as a whole, in half of all cases."""
    runs: int | None = None
    """Runs of a side; None for any of 1, 2, 4, 8."""


@dataclass(frozen=True, slots=True)
class Program:
    """Stacks of a program, with the seconds each takes, and which function causes it."""

    stacks: Sequence[tuple[str, ...]]
    seconds: Floats
    causes: Sequence[str]
    """The function of each stack: that of its last frame, or its caller if many share that."""

    def is_waiting(self) -> Bools:
        return np.array([stack[-1] == WAITING for stack in self.stacks], dtype=bool)


def make_program(random: Random) -> Program:
    """Make a program of 40 to 200 functions."""
    count = int(random.integers(40, 201))
    names = [f"package.module_{number % 9}:function_{number}" for number in range(count)]
    contexts = _contexts(random, names)
    sums = _zipf(random, count)
    stacks: list[tuple[str, ...]] = []
    seconds: list[float] = []
    for name, share in zip(names, sums, strict=True):
        own = contexts[name]
        kinds = _kinds(random)
        parts = np.outer(random.dirichlet(np.full(len(own), 0.7)), [part for _, part in kinds]) * share
        for context, row in zip(own, parts, strict=True):
            for (end, _), part in zip(kinds, row.tolist(), strict=True):
                stacks.append((*context, *end))
                seconds.append(part)
    causes = [_cause(stack) for stack in stacks]
    return Program(stacks, np.array(seconds), causes)


def _contexts(random: Random, names: Sequence[str]) -> dict[str, list[tuple[str, ...]]]:
    """Grow a tree of calls in which each function has a place or several."""
    tree: list[tuple[str, ...]] = [("main:<module>", "main:run")]
    found: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    order = [*names, *random.choice(names, size=2 * len(names)).tolist()]
    for name in order:
        above = tree[int(random.integers(max(0, len(tree) - 60), len(tree)))]
        path = (*above[:_DEEPEST], name)
        if random.random() < 0.15:  # it calls itself, some times deep
            path = (*path, *[name] * int(random.integers(1, 6)))
        if random.random() < 0.1 and len(above) > 3:  # it is called again by one it has called
            path = (*path, above[-1], name)
        tree.append(path)
        found[name].append(path)
    return found


def _zipf(random: Random, count: int) -> Floats:
    shares: Floats = 1 / np.arange(1, count + 1) ** random.uniform(0.7, 1.2)
    return random.permutation(shares / shares.sum())


def _kinds(random: Random) -> list[tuple[tuple[str, ...], float]]:
    """Choose how a function spends its time: computing, waiting, both, or in a function that many share."""
    chance = random.random()
    if chance < 0.35:
        return [((), 1.0)]
    if chance < 0.55:
        return [((WAITING,), 1.0)]
    if chance < 0.65:
        part = float(random.uniform(0.2, 0.8))
        return [((), part), ((WAITING,), 1 - part)]
    shared = int(random.integers(len(_SHARED)))
    end = (_SHARED[shared], WAITING) if shared < _SHARED_WAITING else (_SHARED[shared],)
    if random.random() < 0.5:
        return [(end, 1.0)]
    part = float(random.uniform(0.2, 0.8))
    return [(end, part), ((), 1 - part)]


def _cause(stack: tuple[str, ...]) -> str:
    frames = [frame for frame in stack if frame != WAITING]
    return frames[-2] if frames[-1] in _SHARED else frames[-1]


def guilty_of(random: Random, program: Program, waits: bool | None) -> tuple[str, Bools] | None:
    """Choose a function that holds enough of the samples, and the stacks of it that become slower.

    None if this program has no such function.
    """
    parts: dict[tuple[str, bool, bool], list[int]] = defaultdict(list)
    for at, (stack, cause) in enumerate(zip(program.stacks, program.causes, strict=True)):
        is_shared = any(frame in _SHARED for frame in stack[-2:])
        parts[cause, stack[-1] == WAITING, is_shared].append(at)
    total = program.seconds.sum()
    large = sorted(
        key
        for key, rows in parts.items()
        if program.seconds[rows].sum() >= _LEAST_SHARE * total and waits in (None, key[1])
    )
    if not large:
        return None
    key = large[int(random.integers(len(large)))]
    chosen = np.zeros(len(program.stacks), dtype=bool)
    chosen[parts[key]] = True
    return key[0], chosen


def sides(random: Random, case: Case) -> tuple[list[Profile], list[Profile], str]:
    """Profile both sides of a program. Also return the name of the slower function."""
    while True:
        program = make_program(random)
        if found := guilty_of(random, program, case.waits):
            break
    guilty, rows = found
    machine = np.ones((2, len(program.stacks)))
    if random.random() < 0.5:
        machine[int(random.integers(2)), ~program.is_waiting()] += case.machine_slower
    changed = np.where(rows, 1 + case.slower, 1.0)
    noise = _noise_of(random, program, case)
    before, after = (
        _profiles(random, program, program.seconds * factors, case, noise)
        for factors in (machine[0], machine[1] * changed)
    )
    return before, after, guilty


def _noise_of(random: Random, program: Program, case: Case) -> Floats:
    """Return how much each function scatters, row by row."""
    kinds = sorted({(cause, stack[-1] == WAITING) for cause, stack in zip(program.causes, program.stacks, strict=True)})
    own = {key: case.noise * float(random.lognormal(0, 0.4)) * (1.3 if key[1] else 1.0) for key in kinds}
    return np.array(
        [own[cause, stack[-1] == WAITING] for cause, stack in zip(program.causes, program.stacks, strict=True)]
    )


def _profiles(random: Random, program: Program, seconds: Floats, case: Case, noise: Floats) -> list[Profile]:
    runs = case.runs or int(random.choice(_RUNS))
    return [_profile(random, program, seconds, case, noise, case.samples / runs) for _ in range(runs)]


def _profile(random: Random, program: Program, seconds: Floats, case: Case, noise: Floats, samples: float) -> Profile:
    keys = list(zip(program.causes, (stack[-1] == WAITING for stack in program.stacks), strict=True))
    drawn = {key: float(random.normal()) for key in dict.fromkeys(keys)}
    own = np.exp(noise * np.array([drawn[key] for key in keys]))
    machine = np.where(program.is_waiting(), 1.0, float(np.exp(random.normal(0, case.machine_noise))))
    took = seconds * own * machine
    rate = samples / program.seconds.sum()
    counts = random.poisson(took * rate)
    stacks: dict[tuple[str, ...], int] = defaultdict(int)
    for stack, number in zip(program.stacks, counts.tolist(), strict=True):
        if number:
            stacks[stack] += number
    return Profile("py-spy", "samples", float(took.sum() * _SECONDS), dict(stacks))


def is_named(found: ProfileDifference, guilty: str) -> bool:
    """True if the function is named first, or as the direct caller of the one named first."""
    if not found.named:
        return False
    first = found.named[0]
    return guilty in (first.function, *first.callers[:1])


def measure(case: Case, seeds: int, first: int = 0) -> dict[str, float]:
    """Explain many pairs of sides. Return the shares of what was named, and the milliseconds an explanation takes."""
    named, others, anything, took = 0, 0, 0, 0.0
    for seed in range(first, first + seeds):
        before, after, guilty = sides(np.random.default_rng(seed), case)
        began = time.process_time()
        found = profile_difference(before, after)
        took += time.process_time() - began
        named += is_named(found, guilty)
        anything += bool(found.named)
        others += len(found.named) > is_named(found, guilty)
    return {
        "named_first": named / seeds,
        "others_named": others / seeds,
        "any_named": anything / seeds,
        "explain_ms": 1000 * took / seeds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=Case().samples)
    parser.add_argument("--runs", type=int)
    run(parser, Case(), ("slower", "noise", "machine-noise", "machine-slower"), measure)


if __name__ == "__main__":
    main()
