"""The functions that explain two sides, where runs of both have profiles."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from curator_bench.causes.profile_difference import ProfileDifference, profile_difference
from curator_bench.causes.sides import Sides
from curator_bench.store.profiles import profiles_of
from curator_bench.store.queries import PastRun
from curator_bench.values.profiles import Profile
from curator_bench.verdict.cases import MIN_EFFECT

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class Profiled:
    """Differences of the profiles of two sides, one for each profiler that both have."""

    differences: tuple[ProfileDifference, ...]
    runs: tuple[int, int]
    """Number of runs of each side that have a profile."""
    hint: str
    """Say how to record the profiles that are missing; empty if both sides have some."""


def by_functions(connection: Connection, sides: Sides, *, limit: float = MIN_EFFECT) -> Profiled:
    """Name the functions that explain the difference of two sides."""
    found = [_profiles(connection, runs) for runs in (sides.before, sides.after)]
    before, after = ([one for profiles in side for one in profiles] for side in found)
    both = sorted({one.profiler for one in before} & {one.profiler for one in after})
    differences = tuple(
        profile_difference(*([one for one in side if one.profiler == name] for side in (before, after)), limit=limit)
        for name in both
    )
    hint = "" if both else _hint(sides, bool(before), bool(after))
    return Profiled(differences, (len(found[0]), len(found[1])), hint)


def _profiles(connection: Connection, runs: Sequence[PastRun]) -> list[list[Profile]]:
    """Return the profiles of each run that has some."""
    found = profiles_of(connection, [run.uid for run in runs])
    usable = [[one for one in profiles if one.total and one.seconds > 0] for profiles in found.values()]
    return [profiles for profiles in usable if profiles]


def _hint(sides: Sides, has_before: bool, has_after: bool) -> str:
    said = {
        (False, False): "no run has a profile",
        (True, False): "no run after has a profile",
        (False, True): "no run before has a profile",
    }.get((has_before, has_after), "no profiler has profiled both sides")
    file = f" {shlex.quote(sides.entry.path)}" if sides.entry.path else ""
    command = f"pytest{file} --benchmark --bench-profile py-spy -k {shlex.quote(sides.entry.name)}"
    return f"{said}; profiles of both sides tell which function it is: `{command}`"
