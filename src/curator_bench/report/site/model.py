"""The values that the dashboard shows, and the Protocol it asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeGuard, TypeVar

from curator_bench.report.site.links import slug
from curator_bench.values import Scalar, Subject

FINE = ("passed", "skipped", "running")
"""A run of any other verdict is one that somebody should look at."""
MEASURED = ("passed", "failed")


@dataclass(frozen=True, slots=True, order=True)
class SiteEntry:
    """An entry, or a Python benchmark, in one file."""

    name: str
    path: str

    @property
    def slug(self) -> str:
        return slug(self.name, self.path)


@dataclass(frozen=True, slots=True)
class InvocationFacts:
    """Who ran a session, from where."""

    start: datetime
    host: str | None
    status: str
    command_line: str | None
    ci_run_url: str | None


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """A session that has a page of its own."""

    uid: str
    name: str
    start: datetime | None
    reason: str | None = None
    commit: str | None = None
    dirty: bool | None = None
    branch: str | None = None
    results: str = ""
    verdicts: Mapping[str, int] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    subjects: Sequence[Subject] = ()
    invocations: Sequence[InvocationFacts] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        return slug(self.name, self.uid)

    @property
    def runs(self) -> int:
        return sum(self.verdicts.values())


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
    """How long the script ran; the whole run where nobody measured that."""
    error: str | None
    log_path: str | None
    machine: str | None
    definition: str | None
    commit: str | None
    branch: str | None
    missed: Sequence[str] = ()
    inconclusive: Sequence[str] = ()
    """Gates that could not be decided, with what would."""
    links: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def why(self) -> str:
        """The error, or the requirements that were not met and the gates that are inconclusive."""
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
    """The level of a metric changed, between the runs `before` and `first`."""

    entry: SiteEntry
    metric: str
    machine: str | None
    kind: str
    """`regression` or `improvement`."""
    state: str | None
    """Of a regression: `open`, `accepted` or `recovered`."""
    change: float
    interval: tuple[float, float]
    level_before: float
    level_after: float
    before: PointFacts
    first: PointFacts
    is_new: bool
    """It began with the latest session."""
    subjects: Sequence[tuple[str, str, str]] = ()


@dataclass(frozen=True, slots=True)
class DriftFacts:
    """A metric became worse bit by bit."""

    entry: SiteEntry
    metric: str
    machine: str | None
    change: float
    interval: tuple[float, float]
    level_before: float
    level_after: float
    since: str
    """The mark it is measured from, for after "since"."""
    start: datetime
    """The start of the run at the mark."""


@dataclass(frozen=True, slots=True)
class LevelFacts:
    """A stretch of runs between two steps, from the start of its first run to that of its last."""

    start: datetime
    end: datetime
    middle: float
    noise: float
    """A fraction of the level."""


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
    """The smallest change that would have been found."""
    limit: float
    """The change it has to be able to show."""
    is_blind: bool
    """It would have missed such a change."""
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
    """The metrics of one entry: their direction, those that stand beside another, and those that stand first."""

    better: Mapping[str, str]
    beside: frozenset[str]
    """Metrics that only say how the repeats of another scatter, and bookkeeping."""
    first: Sequence[str] = ()
    """Metrics with requirements, in their order."""


class History(Protocol):
    """Whoever knows what was recorded. Everything is asked for once, entry by entry."""

    def sessions(self) -> Sequence[SessionFacts]:
        """Those that get a page, oldest first."""

    def entries(self) -> Sequence[SiteEntry]:
        """All there are, by name."""

    def runs(self, entry: SiteEntry) -> Sequence[RunFacts]:
        """All of one entry, oldest first."""

    def steps(self) -> Sequence[StepFacts]:
        """Of all entries, oldest first."""

    def drifts(self) -> Sequence[DriftFacts]:
        """Of all entries."""

    def series(self) -> Sequence[SeriesFacts]:
        """Every metric that is judged, on every machine."""

    def compared(self, a: SessionFacts, b: SessionFacts) -> Sequence[ComparedFacts]:
        """The judgement of session B against session A, metric by metric."""

    def directions(self, entry: SiteEntry, metrics: Sequence[str]) -> Directions:
        """Of these metrics of an entry."""


class _OfEntry(Protocol):
    @property
    def entry(self) -> SiteEntry: ...


Facts = TypeVar("Facts", bound=_OfEntry)


def by_entry(found: Sequence[Facts]) -> dict[SiteEntry, list[Facts]]:
    """The facts of each entry, in their order."""
    of: dict[SiteEntry, list[Facts]] = {}
    for one in found:
        of.setdefault(one.entry, []).append(one)
    return of


def numbers_of(runs: Sequence[RunFacts]) -> Iterator[str]:
    """The metrics that are numbers in any of the runs, by name."""
    names = {name for run in runs for name, value in run.metrics.items() if is_number(value)}
    yield from sorted(names)


def is_number(value: Scalar) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
