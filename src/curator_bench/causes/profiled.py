"""The functions that explain two sides, where runs of both have profiles."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from curator_bench.causes.hunted_profiles import hunted_sides
from curator_bench.causes.profile_difference import ProfileDifference, profile_difference
from curator_bench.causes.sides import Sides
from curator_bench.causes.what_changed import WhatChanged
from curator_bench.store.profiles import profiles_of
from curator_bench.store.queries import EntryKey
from curator_bench.values.profiles import Profile
from curator_bench.verdict.cases import MIN_EFFECT

if TYPE_CHECKING:
    from sqlalchemy import Connection

OfRuns: TypeAlias = Sequence[Sequence[Profile]]
"""The profiles of each run of a side."""


@dataclass(frozen=True, slots=True)
class Profiled:
    """Differences of the profiles of two sides, one for each profiler that both have."""

    differences: tuple[ProfileDifference, ...]
    runs: tuple[int, int]
    """Number of runs of each side that have a profile."""
    hint: str
    """Say how to record the profiles that are missing; empty if both sides have some."""
    sessions: tuple[str, str] | None = None
    """The sessions of a bisect or an A/B comparison whose ends were profiled; None for the runs of the sides."""


def by_functions(connection: Connection, sides: Sides, *, limit: float = MIN_EFFECT) -> Profiled:
    """Name the functions that explain the difference of two sides."""
    before, after = (usable_profiles(connection, [run.uid for run in side]) for side in (sides.before, sides.after))
    differences = differences_of(before, after, limit=limit)
    hint = "" if differences else _hint(sides, bool(before), bool(after))
    return Profiled(differences, (len(before), len(after)), hint)


def by_functions_of_hunts(
    connection: Connection, entry: EntryKey, changed: WhatChanged, repo: Path | None, *, limit: float = MIN_EFFECT
) -> Profiled | None:
    """Name the functions by the profiles of a bisect or an A/B comparison at two commits of a change, if there are any.

    `repo` is a checkout that may have these commits.
    """
    found = hunted_sides(connection, entry, changed, repo)
    if found is None:
        return None
    profiled = by_functions(connection, found, limit=limit)
    sessions = found.before[-1].session, found.after[-1].session
    return replace(profiled, sessions=sessions) if profiled.differences else None


def usable_profiles(connection: Connection, uids: Sequence[str]) -> OfRuns:
    """Return the profiles of each of these runs that has some."""
    found = profiles_of(connection, uids)
    usable = [[one for one in profiles if one.total and one.seconds > 0] for profiles in found.values()]
    return [profiles for profiles in usable if profiles]


def differences_of(
    before: OfRuns, after: OfRuns, *, limit: float = MIN_EFFECT, looks: int = 1
) -> tuple[ProfileDifference, ...]:
    """Compare the profiles of the runs of two sides, for each profiler that both have."""
    sides = [[one for profiles in side for one in profiles] for side in (before, after)]
    both = sorted(set.intersection(*({one.profiler for one in side} for side in sides)))
    of_each = ([[one for one in side if one.profiler == name] for side in sides] for name in both)
    return tuple(profile_difference(*of_one, limit=limit, looks=looks) for of_one in of_each)


def _hint(sides: Sides, has_before: bool, has_after: bool) -> str:
    said = {
        (False, False): "no run has a profile",
        (True, False): "no run after has a profile",
        (False, True): "no run before has a profile",
    }.get((has_before, has_after), "no profiler has profiled both sides")
    file = f" {shlex.quote(sides.entry.path)}" if sides.entry.path else ""
    command = f"pytest{file} --benchmark --bench-profile py-spy -k {shlex.quote(sides.entry.name)}"
    return f"{said}; profiles of both sides tell which function it is: `{command}`"
