"""Profiles the two ends of a bisect or an A/B comparison in turns, until functions explain their difference.

Each end has a session of its own for this, whose runs are no part of any history. Runs that have their profiles count
when the same command is given again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from curator_bench.errors import BenchError
from curator_bench.hunting.bench import Bench
from curator_bench.profiles import short_name

if TYPE_CHECKING:
    from curator_bench.causes.profile_difference import ProfileDifference
    from curator_bench.values.profiles import Profile

MOST_ROUNDS = 12
"""Rounds after which profiling ends, even if nothing is certain yet."""
_TRIES = 3
"""A script may end before a profiler could attach to it."""
_SUFFIX = "-profile"


class Ended(StrEnum):
    """The reason why profiling ended."""

    EXPLAINED = "functions explain the difference"
    ROUNDS = f"{MOST_ROUNDS} rounds do not explain the difference"
    BUDGET = "the time of --budget is over; the same command continues"
    FAILED = "it could not be profiled"


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """The user's request: under which profilers, and how long."""

    profilers: tuple[str, ...]
    native: bool = False
    limit: float = 0.03
    """The smallest change of a function that counts, as a fraction."""
    deadline: float = math.inf
    """The time on the monotonic clock after which no round should end."""

    @property
    def options(self) -> list[str]:
        """The options of pytest."""
        native = ["--bench-profile-native"] if self.native else []
        return ["--bench-profile", ",".join(self.profilers), "--bench-profile-on", "always", *native]


@dataclass(frozen=True, slots=True)
class End:
    """One of the two ends."""

    name: str
    measured_in: str
    """The session of its measurements, or what the names of these sessions begin with."""
    prepare: Callable[[], Bench]
    """Makes it ready, and returns what runs its benchmark."""

    @property
    def session(self) -> str:
        """The session of its profiles."""
        return f"{self.measured_in}{_SUFFIX}"


@dataclass(frozen=True, slots=True)
class ProfiledEnds:
    """The difference of the two ends by functions."""

    entry: str
    names: tuple[str, str]
    sessions: tuple[str, str]
    rounds: int
    differences: tuple[ProfileDifference, ...] = ()
    """One for each profiler that has profiled both ends."""
    ended: Ended | None = None
    """None if another round would be profiled."""
    problem: str = ""
    """The reason why an end could not be profiled."""


@dataclass(frozen=True, slots=True)
class EndProfiles:
    """The profiles of the good and the bad end, of one entry."""

    entry: str
    """Its name, id or node id."""
    ends: tuple[End, End]
    database: str
    request: ProfileRequest

    def found(self) -> ProfiledEnds:
        """Return what the profiles that are there say."""
        from curator_bench.causes.profiled import differences_of

        sides = [self._profiles(end) for end in self.ends]
        rounds = min(map(len, sides))
        found = differences_of(sides[0], sides[1], limit=self.request.limit, looks=MOST_ROUNDS) if rounds else ()
        first, second = self.ends
        names, sessions = (first.name, second.name), (first.session, second.session)
        return ProfiledEnds(self.entry, names, sessions, rounds, found, self._ended(found, rounds))

    def profile(self, tell: Callable[[str], None]) -> ProfiledEnds:
        """Profile the ends in turns until the difference is explained, or the rounds or the time are used up."""
        longest = 0.0
        while (found := self.found()).ended is None:
            began = time.monotonic()
            if began + longest > self.request.deadline:
                return replace(found, ended=Ended.BUDGET)
            try:
                self._profile_round(found.rounds + 1, tell)
            except BenchError as error:
                return replace(self.found(), ended=Ended.FAILED, problem=str(error))
            longest = max(longest, time.monotonic() - began)
        return found

    def _ended(self, found: Sequence[ProfileDifference], rounds: int) -> Ended | None:
        if len(found) >= len(self.request.profilers) and all(one.is_explained for one in found):
            return Ended.EXPLAINED
        return Ended.ROUNDS if rounds >= MOST_ROUNDS else None

    def _profile_round(self, number: int, tell: Callable[[str], None]) -> None:
        """Profile each end that has fewer profiles than this: in turns A B, B A, A B, as a machine may drift."""
        for end in self.ends if number % 2 else reversed(self.ends):
            for _ in range(_TRIES):
                if len(self._profiles(end)) >= number:
                    break
                tell(f"profiling {end.name}: round {number}")
                said = end.prepare().profile(end.session, self.request.options)
            if len(self._profiles(end)) < number:
                raise BenchError(f"{end.name} has no profile of {self.entry}:\n{said}")

    def _profiles(self, end: End) -> Sequence[Sequence[Profile]]:
        from curator_bench.causes.profiled import usable_profiles
        from curator_bench.store.hunts import hunted_uids
        from curator_bench.store.opening import to_read_if_there

        with to_read_if_there(self.database) as opened:
            if opened is None:
                return ()
            with opened.reading() as connection:
                found = usable_profiles(connection, hunted_uids(connection, end.session, self.entry))
        names = set(map(short_name, self.request.profilers))
        wanted = ([one for one in run if one.profiler.partition(":")[0] in names] for run in found)
        return [run for run in wanted if run]
