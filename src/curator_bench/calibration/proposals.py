"""The limits of a matrix, judged by the recorded runs: how tight or loose they are, and those that history suggests.

A limit belongs to what is written. Entries that are made from one definition by axes, and machines, share it: then the
loosest one is proposed that one of them needs, as soon as all these entries have enough runs.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from curator_bench.calibration.yaml_edits import TIMEOUT, MatrixText, Written, name_of_suite
from curator_bench.store.all_series import Series, all_series, groups_of
from curator_bench.store.latest import ever_skipped
from curator_bench.store.queries import EntryKey
from curator_bench.values import Entry
from curator_bench.verdict.cases import History, Rules
from curator_bench.verdict.direction import Better, better_of
from curator_bench.verdict.distributions import Floats
from curator_bench.verdict.judgement import Trend, Word
from curator_bench.verdict.limits import FEWEST, RATE, Scatter, scatter_of
from curator_bench.verdict.noise import BLOCK
from curator_bench.verdict.trends import trends

if TYPE_CHECKING:
    from sqlalchemy import Connection

_TIMES = ("exec_time_s_max", "exec_time_s")
"""Metrics of how long one execution of a script took; the first that is measured counts."""
_SHORTEST_TIMEOUT_S = 10.0
_TIMEOUT_FACTOR = 2.0
"""A timeout ends a run that hangs. What is merely slower shall end, so that its requirement fails."""
_LOOSE, _LOOSE_TIMEOUT = 2.0, 4.0
"""A limit is loose if it catches only changes so many times as large; a timeout if it is so many times as long."""
_ROUNDED = 0.2
"""The share of the distance between level and limit that rounding may add."""
_MOST_DIGITS = 15


class State(StrEnum):
    """The state of a limit at present."""

    FITS = "fits"
    LOOSE = "loose"
    TIGHT = "tight"
    MISSING = "missing"
    EXCEEDED = "exceeded"
    """The present level is beyond it, so no limit is proposed: it would accept a regression."""
    EXACT = "exact"
    """The metric never changes, so nothing can be said of its noise."""
    TOO_FEW = "too few runs"


@dataclass(frozen=True, slots=True)
class Measured:
    """The runs of one entry on one kind of machine."""

    entry: str
    machine: str | None
    runs: int
    farthest: tuple[float, float]
    """The smallest and the largest value."""
    scatter: Scatter | None
    """None if there are too few runs."""
    worse: float | None = None
    """The fraction by which the present level is worse than the one before, if that is not long ago."""


@dataclass(frozen=True, slots=True)
class Lacking:
    """An entry whose runs are too few for a limit."""

    entry: str
    missing: int
    """The number of further runs it takes; 0 if there are enough, but its level is new."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit as it is written, or that could be, with all runs that it holds for."""

    file: str
    names: tuple[str, ...]
    """The names of the entries that share it, without axes."""
    metric: str
    key: str
    """`min_value`, `max_value` or `timeout_s`."""
    now: float | None
    written: Written | None
    """None if it is not written as a number, or not at all."""
    measured: tuple[Measured, ...] = ()
    longest_s: float | None = None
    """`max_timeout_s` of the file, for a timeout."""
    lacking: tuple[Lacking, ...] = ()
    """Entries that share it and have too few runs."""

    @property
    def is_upper(self) -> bool:
        return self.key != "min_value"

    @property
    def known(self) -> list[Scatter]:
        return [one.scatter for one in self.measured if one.scatter is not None]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A limit with what the runs say about it."""

    limit: Limit
    state: State
    proposed: float | None = None
    text: str = ""
    """The proposed number as it is written."""
    chance_now: float | None = None
    """The share of runs that fail by noise alone."""
    catches_now: float | None = None
    """The smallest change that it catches in 80 % of runs, as a fraction; where entries differ, the largest of them."""
    catches: float | None = None
    """The same for the proposed limit."""

    @property
    def is_better(self) -> bool:
        """True if the proposed number should take the place of the present one."""
        return self.state in (State.LOOSE, State.TIGHT, State.MISSING) and self.proposed is not None


def limits_of(
    entries: Iterable[Entry], texts: Mapping[str, MatrixText], metrics: Sequence[str]
) -> dict[Limit, list[Entry]]:
    """Return the limits of these entries, each with the entries that share it.

    `texts` are the files. For `metrics`, a limit is suggested where there is none.
    """
    shared: dict[tuple[object, ...], list[tuple[Limit, Entry]]] = defaultdict(list)
    for entry in entries:
        for limit in _limits(entry, texts[entry.file.file], metrics):
            place = limit.written.spot if limit.written else _block(entry)
            shared[limit.file, place, limit.metric, limit.key, limit.now].append((limit, entry))
    return dict(_written_once(map(_together, shared.values())))


def _block(entry: Entry) -> str:
    """Return the name of the block that the entry is written in."""
    return name_of_suite(entry.place.line) if entry.asv else entry.name


def _written_once(found: Iterable[tuple[Limit, list[Entry]]]) -> Iterator[tuple[Limit, list[Entry]]]:
    """Yield the limits; those of a suite that differ have no place where each could be written."""
    limits = list(found)
    places = Counter((limit.file, limit.written.spot, limit.metric) for limit, _ in limits if limit.written)
    for limit, entries in limits:
        is_own = limit.written and places[limit.file, limit.written.spot, limit.metric] == 1
        yield (limit if is_own else replace(limit, written=None)), entries


def _together(limits: Sequence[tuple[Limit, Entry]]) -> tuple[Limit, list[Entry]]:
    names = dict.fromkeys(name for limit, _ in limits for name in limit.names)
    return replace(limits[0][0], names=tuple(names)), [entry for _, entry in limits]


def _limits(entry: Entry, text: MatrixText, metrics: Sequence[str]) -> Iterator[Limit]:
    block = _block(entry)

    def limit(metric: str, key: str, now: float | None) -> Limit:
        named = [one for one in text.numbers if (one.entry, one.metric, one.key) == (block, metric, key)]
        is_clear = not entry.asv or len(named) == 1  # several suites may stand on one line
        place = next((one for one in named if is_clear and (one.text is None or one.number == now)), None)
        longest_s = text.longest_timeout_s if key == TIMEOUT else None
        return Limit(entry.file.file, (entry.name,), metric, key, now, place, longest_s=longest_s)

    for requirement in entry.requirements:
        for key in ("min_value", "max_value"):
            now = getattr(requirement, key)
            if now is not None:
                yield limit(requirement.metric, key, float(now))
    bounded = {one.metric for one in entry.requirements if (one.min_value, one.max_value) != (None, None)}
    for metric in metrics:
        if metric not in bounded and (better := better_of(metric)) is not None:
            key = "max_value" if better is Better.LESS else "min_value"
            yield Limit(entry.file.file, (entry.name,), metric, key, None, text.new_requirement(block, metric, key))
    yield limit("", TIMEOUT, entry.timeout_s)


@dataclass(frozen=True, slots=True)
class Scope:
    """The runs that count: of a branch, on a kind of machine, since a time."""

    branch: str | None = None
    machine: str | None = None
    since: datetime | None = None

    def values(self, series: Series) -> Floats:
        """Return the numbers that count."""
        is_known = np.isfinite(series.values)
        if self.since is not None:
            is_known &= series.starts >= self.since.timestamp()
        return series.values[is_known]


class Calibration:
    """The recorded runs of entries, and what they say about limits."""

    def __init__(self, connection: Connection, entries: Mapping[str, EntryKey], scope: Scope) -> None:
        """`entries` are keys in the database by id."""
        groups = groups_of(connection, list(entries.values()))
        self._names = {(key.name, key.path): name for name, key in entries.items()}
        self._skipped = {self._names.get(key) for key in ever_skipped(connection)}
        self._series: dict[tuple[str, str], list[Series]] = defaultdict(list)
        found = all_series(connection, branch=scope.branch, among=groups, machine=scope.machine) if groups else []
        for one in (replace(one, values=values) for one in found if len(values := scope.values(one))):
            name = self._names.get((one.entry.name, one.entry.path))
            if name is not None and one.is_newest:
                self._series[name, one.metric].append(one)

    def judged(self, limits: Mapping[Limit, Sequence[Entry]]) -> list[Proposal]:
        """Judge these limits, each by the runs of the entries that share it."""
        wanted = {
            limit: [one for entry in of for one in self._series_of(entry.id, limit)] for limit, of in limits.items()
        }
        measured = self._measured([one for series in wanted.values() for one in series])
        return [
            _proposal(self._with_runs(limit, of, [measured[id(one)] for one in wanted[limit]]))
            for limit, of in limits.items()
        ]

    def _with_runs(self, limit: Limit, entries: Sequence[Entry], measured: Sequence[Measured]) -> Limit:
        runs = dict.fromkeys((one.id for one in entries if one.id not in self._skipped), 0)
        for one in measured:
            runs[one.entry] = max(runs.get(one.entry, 0), one.runs)
        enough = {one.entry for one in measured if one.scatter is not None}
        lacking = [Lacking(name, max(FEWEST - count, 0)) for name, count in runs.items() if name not in enough]
        return replace(limit, measured=tuple(measured), lacking=tuple(lacking))

    def _series_of(self, name: str, limit: Limit) -> list[Series]:
        if limit.key != TIMEOUT:
            return self._series.get((name, limit.metric), [])
        return next((found for metric in _TIMES if (found := self._series.get((name, metric)))), [])

    def _measured(self, series: Sequence[Series]) -> dict[int, Measured]:
        unlike = {id(one): one for one in series}
        found = trends([History(one.values, _rules(one)) for one in unlike.values()])
        return {
            number: Measured(
                self._names[one.entry.name, one.entry.path],
                one.machine_id,
                len(one.values),
                (float(one.values.min()), float(one.values.max())),
                scatter_of(one.values, trend.levels),
                _recently_worse(trend),
            )
            for (number, one), trend in zip(unlike.items(), found, strict=True)
        }


def _rules(series: Series) -> Rules:
    return Rules(better_of(series.metric, otherwise=Better.LESS))


def _recently_worse(trend: Trend) -> float | None:
    if not trend.steps or trend.steps[-1].word is not Word.REGRESSION:
        return None
    return trend.steps[-1].change if trend.levels[-1].end - trend.steps[-1].began <= BLOCK else None


def _proposal(limit: Limit) -> Proposal:
    if not limit.known:
        return Proposal(limit, State.TOO_FEW)
    if limit.key == TIMEOUT:
        return Proposal(limit, State.TOO_FEW) if limit.lacking else _timeout(limit)
    now, is_upper = limit.now, limit.is_upper
    if now is not None and any((now < one.level) if is_upper else (now > one.level) for one in limit.known):
        return Proposal(limit, State.EXCEEDED, chance_now=1.0)
    if limit.lacking:
        return Proposal(limit, State.TOO_FEW)
    if any(one.is_constant for one in limit.known):
        return Proposal(limit, State.EXACT)
    loosest = max if is_upper else min
    needed = loosest([one.limit(is_upper=is_upper) for one in limit.known] + _beyond_doubt(limit))
    text = rounded(needed, loosest(one.level for one in limit.known), is_upper=is_upper)
    proposed = float(text)
    catches = _catches(limit, proposed)
    if now is None:
        return Proposal(limit, State.MISSING, proposed, text, catches=catches)
    chance = max(one.chance(now, is_upper=is_upper) for one in limit.known)
    before = _catches(limit, now)
    is_loose = abs(before) > _LOOSE * abs(catches)
    state = State.TIGHT if chance > RATE else State.LOOSE if is_loose else State.FITS
    return Proposal(limit, state, proposed, text, chance, before, catches)


def _beyond_doubt(limit: Limit) -> list[float]:
    """Return the farthest values of machines with too few runs: these the limit must not exclude."""
    return [one.farthest[1 if limit.is_upper else 0] for one in limit.measured if one.scatter is None]


def _catches(limit: Limit, number: float) -> float:
    return max((one.catches(number, is_upper=limit.is_upper) for one in limit.known), key=abs)


def _timeout(limit: Limit) -> Proposal:
    slowest = max([one.limit(is_upper=True) for one in limit.known] + _beyond_doubt(limit))
    wanted = max(_TIMEOUT_FACTOR * slowest, _SHORTEST_TIMEOUT_S)
    text = rounded(min(wanted, limit.longest_s or wanted), 0.0, is_upper=True)
    now = limit.now or math.inf
    state = State.TIGHT if now < slowest else State.LOOSE if now > _LOOSE_TIMEOUT * float(text) else State.FITS
    chance = max(one.chance(now, is_upper=True) for one in limit.known)
    return Proposal(limit, state, float(text), text, chance)


def rounded(limit: float, level: float, *, is_upper: bool) -> str:
    """Return the limit with few digits. It is as loose as before, or a little looser."""
    rounding = ROUND_CEILING if is_upper else ROUND_FLOOR
    exact = Decimal(repr(limit))
    for digits in range(2, _MOST_DIGITS + 1):
        short = Context(prec=digits, rounding=rounding).plus(exact)
        if abs(float(short) - limit) <= _ROUNDED * abs(limit - level):
            return f"{short.normalize():f}"
    return f"{exact.normalize():f}"
