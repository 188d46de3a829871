"""The order of runs: that of their commits within a branch where they are known, else of time.

The order is expressed in times. The time of a run is its start, unless a later commit of the same branch was measured
earlier. Then its time is just before the first run of such a commit. So runs sorted by these times are in the order of
their commits, and a late run of an old commit goes to its place.

One commit comes before another if it is less deep in the repository and not committed later. Where the two disagree, as
after a rebase, time decides. It also decides between branches, and for runs without a known commit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from math import inf
from operator import itemgetter
from time import time
from typing import Any, NamedTuple, Protocol, TypeVar

from sqlalchemy import ColumnElement, Connection, select

from curator_bench.store.tables import SESSIONS
from curator_bench.values import CommitPlace

_APART_S = 1e-6
"""Seconds between a run that is moved to its place and the run after it."""


class _Row(Protocol):
    """A run with its session's id, as a row has it."""

    @property
    def session(self) -> int: ...


_Run = TypeVar("_Run", bound=_Row)


def commit_places(connection: Connection, where: ColumnElement[bool] | None = None) -> dict[int, CommitPlace]:
    """Read the places of commits by session id, where they are known."""
    columns = [SESSIONS.c[name] for name in ("id", "commit_depth", "committed_at", "branch", "branches")]
    known = select(*columns).where(SESSIONS.c.commit_depth.is_not(None), SESSIONS.c.committed_at.is_not(None))
    found = connection.execute(known if where is None else known.where(where)).fetchall()
    return {
        number: CommitPlace(depth, committed.timestamp(), (branch,) if branch else tuple(branches or ()))
        for number, depth, committed, branch, branches in found
    }


def sessions_of_branch(connection: Connection, branch: str) -> list[int]:
    """Find the sessions of a branch, by id: also those of detached checkouts of its commits."""
    detached = select(SESSIONS.c.id, SESSIONS.c.branches).where(SESSIONS.c.branches.is_not(None))
    found = [number for number, branches in connection.execute(detached) if branch in (branches or ())]
    return [*connection.scalars(select(SESSIONS.c.id).where(SESSIONS.c.branch == branch)), *found]


def in_order(
    runs: Iterable[_Run],
    starts: Iterable[float],
    places: Mapping[int, CommitPlace],
    history_of: Callable[[_Run], object],
) -> list[tuple[float, _Run]]:
    """Return the runs in order, each with its time. `history_of` tells which of them are one history.

    The runs are given in the order they began.
    """
    timed = list(zip(starts, runs, strict=True))
    histories: dict[object, list[int]] = defaultdict(list)
    for at, (_, run) in enumerate(timed) if places else ():
        if run.session in places:
            histories[history_of(run)].append(at)
    for members in histories.values():
        commits = [places[timed[at][1].session] for at in members]
        if any(after.depth < before.depth for before, after in pairwise(commits)):
            for at, moment in zip(members, times_of([timed[at][0] for at in members], commits), strict=True):
                timed[at] = (moment, timed[at][1])
    return sorted(timed, key=itemgetter(0))


class _New(NamedTuple):
    session: int


def earlier(
    runs: Sequence[_Run], starts: Sequence[float], places: Mapping[int, CommitPlace], new: CommitPlace
) -> list[tuple[float, _Run]]:
    """Return those runs of one history, in order, that stand before a run of the commit `new` which begins now."""
    begins = _New(-1)
    now = max([time(), *(start + _APART_S for start in starts[-1:])])
    both: list[Any] = [*runs, begins]
    found = in_order(both, [*starts, now], {**places, begins.session: new}, lambda _: None)
    return found[: next(at for at, (_, run) in enumerate(found) if run is begins)]


def times_of(starts: Sequence[float], commits: Sequence[CommitPlace]) -> list[float]:
    """Return the times of the runs of one history, given their starts and commits."""
    bounds = _bounded(starts, commits)
    latest, times = inf, list(starts)
    for at in sorted(range(len(starts)), key=lambda at: (bounds[at], commits[at].depth, starts[at]), reverse=True):
        if bounds[at] < starts[at]:
            times[at] = min(bounds[at], latest - _APART_S)
        latest = min(latest, times[at])
    return times


def _bounded(starts: Sequence[float], commits: Sequence[CommitPlace]) -> list[float]:
    """Return the start of each run, or that of the first run of a later commit on its branch, if that is earlier."""
    bounds = list(starts)
    later: dict[str, _Earliest] = defaultdict(_Earliest)
    deepest_first = sorted(range(len(starts)), key=lambda at: -commits[at].depth)
    for _, same in groupby(deepest_first, key=lambda at: commits[at].depth):
        equally_deep = list(same)
        for at in equally_deep:
            found = (later[branch].from_(commits[at].time) for branch in commits[at].branches)
            bounds[at] = min([bounds[at], *found])
        for at in equally_deep:
            for branch in commits[at].branches:
                later[branch].add(commits[at].time, bounds[at])
    return bounds


class _Earliest:
    """The earliest run of commits of some time or later. Only runs earlier than those of all later commits are kept."""

    def __init__(self) -> None:
        self._committed: list[float] = []
        self._runs: list[float] = []

    def from_(self, committed: float) -> float:
        """Return the earliest run of a commit of this time or later."""
        at = bisect_left(self._committed, committed)
        return self._runs[at] if at < len(self._runs) else inf

    def add(self, committed: float, run: float) -> None:
        at = bisect_left(self._committed, committed)
        if at < len(self._runs) and self._runs[at] <= run:
            return
        end = at + (at < len(self._committed) and self._committed[at] == committed)
        while at and self._runs[at - 1] >= run:
            at -= 1
        self._committed[at:end], self._runs[at:end] = [committed], [run]
