"""The shifts in a database, each with where it happened; for the subcommands that show or close them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from curator_bench.store.acceptances import Accepted, acceptances
from curator_bench.store.all_series import (
    RunPlace,
    Series,
    all_series,
    declared_directions,
    places_of,
    subject_commits,
)
from curator_bench.store.queries import EntryKey
from curator_bench.verdict.cases import MIN_EFFECT, Rules
from curator_bench.verdict.direction import better_of
from curator_bench.verdict.gates import is_beside
from curator_bench.verdict.hunting import State, state_of
from curator_bench.verdict.judgement import Step
from curator_bench.verdict.judging import History, courses

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class Wish:
    """Which shifts are looked for."""

    metric: str | None = None
    since: datetime | None = None
    better: str | None = None
    """The direction of metrics that tell and declare none."""
    min_effect: float = MIN_EFFECT
    branch: str | None = None
    """Of sessions of this branch only."""


@dataclass(frozen=True, slots=True)
class FoundShift:
    """A shift, the last run before it and the first since."""

    entry: EntryKey
    metric: str
    machine_id: str | None
    shift: Step
    state: State
    before: RunPlace
    first: RunPlace
    newest: RunPlace
    """The last run of the series."""
    subjects: Sequence[tuple[str, str, str]] = ()
    """Packages under test that changed with it: name, commit or version before and since."""


@dataclass(frozen=True, slots=True)
class Found:
    shifts: Sequence[FoundShift]
    series: int
    """How many were looked at."""
    without_direction: Collection[str] = ()
    """Metrics that were not, as nobody says whether less or more of them is better."""
    ended: Sequence[Series] = ()
    """Those of which the newest runs have measured no number."""


def find_shifts(connection: Connection, wish: Wish) -> Found:
    """All there are, the oldest first."""
    series = all_series(connection, wish.metric, wish.branch)
    declared = declared_directions(connection)
    measured: dict[EntryKey, set[str]] = defaultdict(set)
    for one in series:
        measured[one.entry].add(one.metric)
    judged = [
        (one, Rules(better_of(one.metric, declared.get(_key(one), None), wish.better), wish.min_effect))
        for one in series
        if not is_beside(one.metric, measured[one.entry])
    ]
    unknown = {one.metric for one, rules in judged if rules.better is None}
    judged = [(one, rules) for one, rules in judged if rules.better is not None]
    found = courses([History(one.values, rules) for one, rules in judged])
    pairs = [(one, rules, course.steps) for (one, rules), course in zip(judged, found, strict=True) if course.steps]
    placed = sorted(_placed(connection, pairs), key=lambda one: (one.first.start, one.entry, one.metric))
    if wish.since is not None:
        placed = [one for one in placed if one.first.start >= wish.since]
    return Found(placed, len(judged), unknown, [one for one, _ in judged if one.runs_without])


def _around(step: Step) -> tuple[int, int]:
    """The last run before it, and its first."""
    return step.began - 1, step.began


def _key(one: Series) -> tuple[str, str, str]:
    return one.entry.name, one.entry.path, one.metric


def _placed(connection: Connection, pairs: Sequence[tuple[Series, Rules, Sequence[Step]]]) -> list[FoundShift]:
    """With the runs around each shift, and whether somebody has accepted it."""
    wanted = {int(one.runs[at]) for one, _, steps in pairs for step in steps for at in _around(step)}
    places = places_of(connection, wanted | {int(one.runs[-1]) for one, _, _ in pairs})
    subjects = subject_commits(connection, {places[run].session_id for run in wanted})
    closed: dict[tuple[str, str, str], list[Accepted]] = defaultdict(list)
    for accepted in acceptances(connection):
        closed[accepted.name, accepted.path, accepted.metric].append(accepted)
    found = []
    for one, rules, shifts in pairs:
        for number, shift in enumerate(shifts):
            before, first = (places[int(one.runs[at])] for at in _around(shift))
            is_accepted = any(first.start <= known.until for known in closed[_key(one)])
            state = state_of(shift, shifts[number + 1 :], rules, accepted=is_accepted)
            changed = _changed(subjects.get(before.session_id, {}), subjects.get(first.session_id, {}))
            newest = places[int(one.runs[-1])]
            found.append(
                FoundShift(one.entry, one.metric, one.machine_id, shift, state, before, first, newest, changed)
            )
    return found


def _changed(before: dict[str, str], since: dict[str, str]) -> list[tuple[str, str, str]]:
    both = sorted(before.keys() & since.keys())
    return [(name, before[name], since[name]) for name in both if before[name] != since[name]]
