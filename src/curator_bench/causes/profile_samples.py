"""The profiles of two sides as one table of times by stack and run, and the groups of stacks that are compared.

A group is the own time of a function, or the part of it that computes or waits; as a whole or in one context: called by
this function, which was called by that one. So a function that all share, such as one that waits for a lock, is told by
who calls it. What is spread over many functions is found by their caller: its total time, with all that it calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from curator_bench.values.profiles import OTHER, WAITING, Profile
from curator_bench.verdict.distributions import Bools, Floats, Ints

_DEEPEST = 4
"""Frames of a context: a function and its next callers."""
_DEEPEST_OF_A_KIND = 2


class Kind(StrEnum):
    """The kind of time of a group."""

    OWN = "own"
    """Computing and waiting in the function itself. Profilers do not always tell the two apart."""
    COMPUTING = "computing"
    WAITING = "waiting"
    TOTAL = "total"
    """Own time, and that of all that it calls."""


@dataclass(frozen=True, slots=True)
class Group:
    """Stacks whose time is compared as one."""

    kind: Kind
    context: tuple[str, ...]
    """The function, then its callers from the nearest on; empty after it if all are counted."""

    @property
    def depth(self) -> int:
        return len(self.context)


@dataclass(frozen=True)
class Samples:
    """Times of both sides by stack and run. With profiles in bytes, a time is a number of bytes."""

    stacks: Sequence[tuple[str, ...]]
    times: Floats
    """Seconds of each stack in each run, the earlier side first."""
    grain: Floats
    """Seconds that one sample of each run stands for; zero if nothing was sampled, but all was counted."""
    runs: tuple[int, int]

    @classmethod
    def of(cls, before: Sequence[Profile], after: Sequence[Profile]) -> Samples:
        both = [*before, *after]
        places: dict[tuple[str, ...], int] = {}
        for profile in both:
            for stack in profile.stacks:
                places.setdefault(stack, len(places))
        is_sampled = both[0].unit == "samples"
        grain = np.array([one.seconds / max(one.total, 1) if is_sampled else 0.0 for one in both])
        times = np.zeros((len(places), len(both)))
        for run, profile in enumerate(both):
            rows = [places[stack] for stack in profile.stacks]
            times[rows, run] = np.fromiter(profile.stacks.values(), float, len(rows)) * (grain[run] or 1.0)
        return cls(list(places), times, grain, (len(before), len(after)))

    @cached_property
    def is_waiting(self) -> Bools:
        return np.array([stack[-1:] == (WAITING,) for stack in self.stacks], dtype=bool)

    @property
    def means(self) -> tuple[Floats, Floats]:
        """Time per run of each stack, before and after."""
        return self.of_sides(self.times)

    def of_sides(self, times: Floats) -> tuple[Floats, Floats]:
        return times[:, : self.runs[0]].mean(axis=1), times[:, self.runs[0] :].mean(axis=1)


@dataclass(frozen=True)
class Groups:
    """All groups of the stacks, and which stacks belong to each."""

    groups: Sequence[Group]
    members: tuple[Ints, Ints]
    """Pairs of a group and one of its stacks."""
    parents: Ints
    """The group with one caller less, or with the whole own time; of the whole own time of a function -1."""

    @classmethod
    def of(cls, samples: Samples) -> Groups:
        places: dict[Group, int] = {}
        parents: list[int] = []
        rows: list[tuple[int, int]] = []
        for at, stack in enumerate(samples.stacks):
            for group, parent in _groups_of(stack):
                place = places.setdefault(group, len(places))
                if place == len(parents):
                    parents.append(places[parent] if parent is not None else -1)
                rows.append((place, at))
        pairs = np.array(rows, dtype=np.intp).reshape(-1, 2)
        return cls(list(places), (pairs[:, 0], pairs[:, 1]), np.array(parents, dtype=np.intp))

    def summed(self, times: Floats) -> Floats:
        """Sum the rows of stacks into rows of groups."""
        total = np.zeros((len(self.groups), times.shape[1]))
        np.add.at(total, self.members[0], times[self.members[1]])
        return total

    def stacks_of(self, group: int) -> Ints:
        found: Ints = self.members[1][self.members[0] == group]
        return found

    @cached_property
    def depths(self) -> Ints:
        return np.array([group.depth for group in self.groups], dtype=np.intp)

    def of_kind(self, kind: Kind) -> Bools:
        return np.array([group.kind is kind for group in self.groups], dtype=bool)

    @cached_property
    def functions(self) -> Bools:
        """Groups that are the whole own time of a function."""
        functions: Bools = self.of_kind(Kind.OWN) & (self.depths == 1)
        return functions

    def waiting_shares(self, samples: Samples) -> Floats:
        """Return the part of each group's time that waits."""
        every = self.summed(samples.times).sum(axis=1)
        waits = self.summed(samples.times * samples.is_waiting[:, None]).sum(axis=1)
        shares: Floats = waits / np.maximum(every, 1e-300)
        return shares


def _groups_of(stack: tuple[str, ...]) -> Iterator[tuple[Group, Group | None]]:
    """Yield the groups of a stack with their parents: its function alone, with its callers, then totals."""
    kind = Kind.WAITING if stack[-1:] == (WAITING,) else Kind.COMPUTING
    frames = [frame for frame in stack if frame not in (WAITING, OTHER)]
    # A function that calls itself is one caller: how deep it does so depends on the data.
    callers = [frame for frame, outer in zip(frames, ["", *frames], strict=False) if frame != outer][::-1]
    parent = None
    for depth in range(1, min(len(callers), _DEEPEST) + 1):
        group = Group(Kind.OWN, tuple(callers[:depth]))
        yield group, parent
        parent = group
        if depth <= _DEEPEST_OF_A_KIND:
            yield Group(kind, group.context), group
    for function in dict.fromkeys(frames):
        yield Group(Kind.TOTAL, (function,)), None
