"""The values the dashboard shows, and the Protocol that provides them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeAlias, TypeGuard, TypeVar

from curator_bench.report.site.links import slug
from curator_bench.report.site.waterfall import Waterfall
from curator_bench.values import Profile, Scalar, Subject

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

    @property
    def family(self) -> SiteEntry:
        """The facts it shares with the other combinations of its axes; an entry without axes is its own family."""
        return SiteEntry(self.name.partition("[")[0], self.path) if self.has_axes else self

    @property
    def has_axes(self) -> bool:
        return "[" in self.name and self.name.endswith("]")


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
    packages: Mapping[str, str] = field(default_factory=dict)
    """Versions of all packages its runs were measured with."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Hashes of the values of variables that its scripts saw, each after its key: `KEY:HASH`."""
    configuration: Mapping[str, str] = field(default_factory=dict)
    """Settings of its runs, such as Ray's."""

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
    series: str | None
    """Runs of an entry with equal ones, on one machine, are one history."""
    definition: str | None
    """Content hash of the definition. If it differs from that of the run before, the definition changed."""
    commit: str | None
    branch: str | None
    missed: tuple[str, ...] = ()
    inconclusive: tuple[str, ...] = ()
    """Inconclusive gates, with what would decide them."""
    disturbed: str = ""
    """Reason why the run is disturbed, and no history."""
    links: Mapping[str, str] = field(default_factory=dict)
    subjects: str = ""
    """The packages under test, with their versions."""
    metrics: Mapping[str, Scalar] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    """As its script wrote them. They are read for the data of its session only."""
    place: datetime | None = None
    """Its time in the order of commits, if a later commit was measured before it."""

    @property
    def session_slug(self) -> str:
        """Return the name of its session's page, which a long history may lack."""
        return slug(self.session, self.session_uid)

    @property
    def why(self) -> str:
        """Return the error, or the unmet requirements and the inconclusive gates, and what disturbed the run."""
        disturbed = [f"disturbed, no history: {self.disturbed}"] if self.disturbed else []
        reasons = [self.error] if self.error else [*self.missed, *self.inconclusive]
        return "; ".join([*reasons, *disturbed])


@dataclass(frozen=True, slots=True)
class PointFacts:
    """A run as one end of a step."""

    session: str
    session_slug: str | None
    """The session's page; None if it has none."""
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
    subjects: tuple[tuple[str, ...], ...] = ()
    """Packages under test that changed with it: name, before and after."""


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
    levels: tuple[LevelFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """A commit, described for people."""

    sha: str
    author: str
    subject: str


@dataclass(frozen=True, slots=True)
class CommitsFacts:
    """The commits that a finding may come from, of the repository or of a package under test."""

    package: str | None
    """None for the repository."""
    before: str
    after: str
    commits: tuple[CommitFacts, ...] = ()
    """The newest, as far as a checkout has them."""
    more: int = 0
    """The number of commits that are not listed."""


@dataclass(frozen=True, slots=True)
class TrendFacts:
    """Values around a step and since; `began` is the place of the first one at the new level."""

    values: tuple[float, ...]
    began: int


@dataclass(frozen=True, slots=True)
class FindingFacts:
    """One cause, and all it explains."""

    name: str
    kind: str
    """`regression` or `improvement`."""
    state: str | None
    before: PointFacts
    """The last run before it."""
    first: PointFacts
    """The first run after it."""
    steps: tuple[StepFacts, ...]
    """Those of required metrics first, then the largest."""
    ranges: tuple[CommitsFacts, ...] = ()
    changed: tuple[str, ...] = ()
    """Other differences between the runs around it, one fact per line."""
    commands: tuple[tuple[str, str], ...] = ()
    """A command that would tell the cause, and the question that it answers."""
    trend: TrendFacts | None = None
    is_new: bool = False
    """True if it began with the latest session."""
    why: Waterfall | None = None
    """Its difference by stages; None if they were not recorded."""
    profiled: tuple[str, str] | None = None
    """Uids of the runs of its first step before and after whose profiles are shown; None if there are none."""


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """The judgement of an entry's runs on one machine."""

    machine: str | None
    series: tuple[SeriesFacts, ...] = ()
    steps: tuple[StepFacts, ...] = ()
    recorded: tuple[Any, ...] = ()
    """The same steps as documents, of which `History.findings` makes findings."""
    drifts: tuple[DriftFacts, ...] = ()
    left_out: tuple[str, ...] = ()
    """Runs of series that have ended, and why."""
    believed: tuple[float, ...] = ()
    """The p-values of the steps."""
    doubted: tuple[float, ...] = ()
    """The p-values of steps that are not reported."""
    tests: int = 0
    """The number of series in which steps were looked for."""
    cells: Mapping[str, Any] = field(default_factory=dict)
    """By uid of the session: the change that stands out most from the level at that time, its metric, and whether it is
    more than noise. Changes for the worse are above 0."""


@dataclass(frozen=True, slots=True)
class EntryState:
    """State of an entry's runs, as marks. A mark is a text that changes with what it marks."""

    entry: SiteEntry
    original: str
    """The name without the values of axes."""
    mark: str
    blocks: Sequence[tuple[str, int]]
    """Mark and number of runs of each block of consecutive runs, oldest first."""
    machines: Mapping[str | None, str]
    newest_machine: str | None
    broken: int
    """The number of sessions since the last run that was fine."""
    profiled: Sequence[RunFacts] = ()
    """The newest runs that have profiles, oldest first, and those of bisects and A/B comparisons."""

    @property
    def runs(self) -> int:
        return sum(runs for _, runs in self.blocks)


@dataclass(frozen=True, slots=True)
class HistoryState:
    """State of a history, as marks."""

    rules: str
    """Text that changes with the rules of judging."""
    entries: Sequence[EntryState]
    sessions: Mapping[str, str]
    """The mark of each session with a page, by uid."""
    earlier: Sequence[str] = ()
    """The marks of the sessions without a page, which are older."""


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


@dataclass(frozen=True, slots=True)
class Beside:
    """The p-values of steps in groups that were judged before, and the number of series that were tested there."""

    p_values: Sequence[float] = ()
    tests: int = 0


BlockOf: TypeAlias = tuple[SiteEntry, int]
"""A block of an entry's runs, by its number."""
Group: TypeAlias = tuple[SiteEntry, str | None]
"""An entry and a machine: its runs are compared with each other."""


class History(Protocol):
    """A source of recorded history."""

    def sessions(self) -> Sequence[SessionFacts]:
        """Return the sessions that get a page, oldest first."""

    def state(self) -> HistoryState:
        """Return the marks of all entries, by name, and of all sessions."""

    def blocks(self, wanted: Sequence[BlockOf]) -> Sequence[Sequence[RunFacts]]:
        """Return the runs of each of these blocks, oldest first. All are in memory at once."""

    def profiles(self, uids: Sequence[str]) -> Mapping[str, Sequence[Profile]]:
        """Return the profiles of these runs by uid. All are in memory at once."""

    def broken_since(self, entry: SiteEntry) -> RunFacts | None:
        """Return the first run since the last one that was fine; None if the newest is."""

    def ran(self, session: SessionFacts) -> Sequence[tuple[SiteEntry, RunFacts]]:
        """Return the runs of a session in the order they began."""

    def judged(self, groups: Collection[Group], beside: Beside) -> tuple[Mapping[Group, GroupFacts], float]:
        """Judge these groups, and return the largest p-value of a reported step.

        `beside` is the rest of the history.
        """

    def axes(self) -> Mapping[SiteEntry, Mapping[str, str]]:
        """Return the values of the axes of each entry that has any, by name of the axis."""

    def commits(self) -> Mapping[str, CommitFacts]:
        """Return the commits of the sessions, as far as a checkout has them, by the name that runs have them under."""

    def disturbed(self) -> Sequence[str]:
        """Return a line about the disturbed runs of each entry that has any. They are no part of `state`."""

    def findings(self, recorded: Sequence[Any], detailed: int) -> Sequence[FindingFacts]:
        """Return the findings of recorded steps: open regressions, then the others, each newest first.

        The first ones are described in detail.
        """

    def compared(self, a: SessionFacts, b: SessionFacts, *, is_one_of_many: bool) -> Sequence[ComparedFacts]:
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
    names: set[str] = set()
    for run in runs:
        names.update(name for name in run.metrics.keys() - names if is_number(run.metrics[name]))
    yield from sorted(names)


def is_number(value: Scalar) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
