"""The values the dashboard shows, and the Protocol that provides them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeGuard, TypeVar

from curator_bench.report.site.links import slug
from curator_bench.values import Scalar, Subject

FINE = ("passed", "skipped", "running")
"""Verdicts that need no attention."""
MEASURED = ("passed", "failed")


@dataclass(frozen=True, slots=True, order=True)
class SiteEntry:
    """An entry or a Python benchmark, in one file."""

    name: str
    path: str

    @property
    def slug(self) -> str:
        return slug(self.name, self.path)


@dataclass(frozen=True, slots=True)
class InvocationFacts:
    """One invocation of a session: its time, host and command line."""

    start: datetime
    host: str | None
    status: str
    command_line: str | None
    ci_run_url: str | None


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """A session with a page of its own."""

    uid: str
    name: str
    start: datetime | None
    reason: str | None = None
    commit: str | None = None
    dirty: bool | None = None
    branch: str | None = None
    results: str = ""
    verdicts: Mapping[str, int] = field(default_factory=dict)
    """The number of entries by the verdict of their last run."""
    runs: int = 0
    """The number of all runs."""
    links: Mapping[str, str] = field(default_factory=dict)
    subjects: Sequence[Subject] = ()
    invocations: Sequence[InvocationFacts] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        return slug(self.name, self.uid)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run of an entry."""

    uid: str
    session: str
    session_uid: str
    verdict: str
    attempt: int
    start: datetime
    duration: float | None
    """Seconds the script ran, or the whole run if that was not measured."""
    error: str | None
    log_path: str | None
    machine: str | None
    definition: str | None
    commit: str | None
    branch: str | None
    missed: Sequence[str] = ()
    inconclusive: Sequence[str] = ()
    """Inconclusive gates, with what would decide them."""
    links: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def why(self) -> str:
        """Return the error, or the unmet requirements and the inconclusive gates."""
        return self.error or "; ".join([*self.missed, *self.inconclusive])


@dataclass(frozen=True, slots=True)
class PointFacts:
    """A run as one end of a step."""

    session: str
    session_slug: str | None
    commit: str | None
    start: datetime


@dataclass(frozen=True, slots=True)
class StepFacts:
    """A change of a metric's level between the runs `before` and `first`."""

    entry: SiteEntry
    metric: str
    machine: str | None
    kind: str
    """`regression` or `improvement`."""
    state: str | None
    """The state of a regression: `open`, `accepted` or `recovered`."""
    change: float
    interval: tuple[float, float]
    level_before: float
    level_after: float
    before: PointFacts
    first: PointFacts
    is_new: bool
    """True if it began with the latest session."""
    subjects: Sequence[tuple[str, str, str]] = ()


@dataclass(frozen=True, slots=True)
class DriftFacts:
    """A metric that became worse slowly."""

    entry: SiteEntry
    metric: str
    machine: str | None
    change: float
    interval: tuple[float, float]
    level_before: float
    level_after: float
    since: str
    """The point it is measured from, as text after "since"."""
    start: datetime
    """The start of the run at that point."""


@dataclass(frozen=True, slots=True)
class LevelFacts:
    """A stretch of runs between two steps, from the start of its first run to that of its last."""

    start: datetime
    end: datetime
    middle: float
    noise: float
    """The noise as a fraction of the level."""


@dataclass(frozen=True, slots=True)
class SeriesFacts:
    """One metric of an entry on one machine: its levels, and the judgement of its newest runs."""

    entry: SiteEntry
    metric: str
    machine: str | None
    says: str
    reason: str
    decides: str
    history: int
    noise: float | None
    visible: float | None
    """The smallest change that would have been detected."""
    limit: float
    """The change that should be detected: that of its gate, or the default."""
    is_gated: bool
    is_blind: bool
    """True if a change of that limit would have been missed."""
    levels: Sequence[LevelFacts] = ()


@dataclass(frozen=True, slots=True)
class ComparedFacts:
    """One metric of one entry on one machine, compared between two sessions."""

    entry: SiteEntry
    metric: str
    machine: str | None
    says: str
    reason: str
    before: float | None
    after: float | None
    change: float | None
    interval: tuple[float, float] | None
    visible: float | None


@dataclass(frozen=True, slots=True)
class Directions:
    """The metrics of an entry: their directions, those shown beside another, and those shown first."""

    better: Mapping[str, str]
    beside: frozenset[str]
    """Metrics that only show the spread of another metric's repeats, and bookkeeping."""
    first: Sequence[str] = ()
    """Metrics with requirements, in their order."""


class History(Protocol):
    """A source of recorded history. Each method is called once, or once per entry."""

    def sessions(self) -> Sequence[SessionFacts]:
        """Return the sessions that get a page, oldest first."""

    def entries(self) -> Sequence[SiteEntry]:
        """Return all entries by name."""

    def runs(self, entry: SiteEntry) -> Sequence[RunFacts]:
        """Return all runs of an entry, oldest first."""

    def steps(self) -> Sequence[StepFacts]:
        """Return the steps of all entries, oldest first."""

    def drifts(self) -> Sequence[DriftFacts]:
        """Return the drifts of all entries."""

    def series(self) -> Sequence[SeriesFacts]:
        """Return every judged metric on every machine."""

    def compared(self, a: SessionFacts, b: SessionFacts) -> Sequence[ComparedFacts]:
        """Return the judgement of session B against session A, metric by metric."""

    def directions(self, entry: SiteEntry, metrics: Sequence[str]) -> Directions:
        """Return the directions of these metrics of an entry."""


class _OfEntry(Protocol):
    @property
    def entry(self) -> SiteEntry: ...


Facts = TypeVar("Facts", bound=_OfEntry)


def by_entry(found: Sequence[Facts]) -> dict[SiteEntry, list[Facts]]:
    """Group the facts by entry, in their order."""
    of: dict[SiteEntry, list[Facts]] = {}
    for one in found:
        of.setdefault(one.entry, []).append(one)
    return of


def numbers_of(runs: Sequence[RunFacts]) -> Iterator[str]:
    """Yield the names of metrics that are a number in any run, sorted."""
    names = {name for run in runs for name, value in run.metrics.items() if is_number(value)}
    yield from sorted(names)


def is_number(value: Scalar) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
