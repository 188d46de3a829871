"""Watches the record: looks for the cause of each open finding, and keeps one issue for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from curator_bench.errors import BenchError
from curator_bench.sharing.issue_texts import Cause, Surroundings, draft_of
from curator_bench.sharing.issues import Draft, Issue, Mark, Tracker
from curator_bench.sharing.web import Unavailable, insist
from curator_bench.verdict.judgement import Word
from curator_bench.verdict.step_states import State
from curator_bench.words import how_many

if TYPE_CHECKING:
    from curator_bench.causes.findings import RecordedFinding
    from curator_bench.causes.judged_history import JudgedHistory

T = TypeVar("T")
_DAY = timedelta(days=1)
LookInto: TypeAlias = "Callable[[RecordedFinding], Cause | None]"
"""Look for the cause of a finding by measuring; None if no time is left."""


@dataclass(frozen=True, slots=True)
class Known:
    """An issue of ours, with its mark."""

    issue: Issue
    mark: Mark

    def is_of(self, finding: RecordedFinding) -> bool:
        """True if the finding has the name of the issue, or may have had it and has one of its series.

        Another finding that began a few runs later may have a name that this one may have had.
        """
        series = {(step.entry.path, step.entry.name, step.metric) for step in finding.steps}
        may_be = self.mark.finding in finding.names and not series.isdisjoint(self.mark.series)
        return self.mark.finding == finding.name or may_be

    @property
    def was_closed_by_a_person(self) -> bool:
        return not self.issue.is_open and not self.mark.is_over


@dataclass(frozen=True, slots=True)
class Ended:
    """An open issue whose finding is over, and why."""

    known: Known
    why: str


def in_turn(judged: JudgedHistory) -> list[RecordedFinding]:
    """Return the open regressions, the largest and surest first: by the smallest change that is credible."""
    found = [one for one in judged.findings if one.word is Word.REGRESSION and one.state is State.OPEN]
    return sorted(found, key=lambda one: -_surely(one))


def _surely(finding: RecordedFinding) -> float:
    low, high = finding.largest.step.interval
    return max(low, -high, 0.0)


def over(judged: JudgedHistory, known: Sequence[Known]) -> Iterator[Ended]:
    """Yield the open issues to close. One whose benchmarks are not in the record stays as it is."""
    judged_series = {(one.series.entry.path, one.series.entry.name, one.series.metric) for one in judged.series}
    taken: set[str] = set()
    for one in sorted(known, key=lambda one: one.issue.number):
        if not one.issue.is_open:
            continue
        findings = [finding for finding in judged.findings if one.is_of(finding)]
        still = next((finding for finding in findings if finding.state is State.OPEN), None)
        if still is not None and still.name not in taken:
            taken.add(still.name)
        elif still is not None:
            yield Ended(one, f"With the runs since then, its cause is that of an older issue (`{still.name}`).")
        elif any(finding.state is State.ACCEPTED for finding in findings):
            yield Ended(one, "It was accepted: its level is the new normal.")
        elif findings:
            yield Ended(one, "The benchmarks have recovered: later runs are as good as before.")
        elif judged_series.issuperset(one.mark.series):
            yield Ended(one, "With the runs since then, it is no regression any more.")


@dataclass(slots=True)
class Watch:
    """One look at the record."""

    tracker: Tracker
    look_into: LookInto
    around: Surroundings
    most: int
    """The most issues that may be opened in 24 hours."""
    tell: Callable[[str], None]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def run(self, judged: JudgedHistory) -> int:
        """Close, open and update issues. Returns the number of open findings that still wait for something."""
        known = self._known()
        for ended in over(judged, known):
            self._close(ended)
        waiting, found = 0, in_turn(judged)
        if not found:
            disturbed = sum(one.runs for one in judged.disturbed)
            left_out = f"; {how_many(disturbed, 'disturbed run')} left out" if disturbed else ""
            self.tell(f"no regression is open in {how_many(len(judged.series), 'series', 'series')}{left_out}")
        for finding in found:
            mine = sorted((one for one in known if one.is_of(finding)), key=lambda one: one.issue.number)
            waiting += not (self._keep(finding, mine[0]) if mine else self._open(finding))
        return waiting

    def _known(self) -> list[Known]:
        """Return our issues. Those of others do not count, whatever they say."""
        ours = self._insist(self.tracker.author)
        there = self._insist(lambda: list(self.tracker.issues()))
        marked = ((one, Mark.of(one.text)) for one in there if one.author == ours)
        return [Known(one, mark) for one, mark in marked if mark is not None]

    def _keep(self, finding: RecordedFinding, known: Known) -> bool:
        """Bring the issue of a finding up to date; False if its cause is still not known."""
        if known.was_closed_by_a_person:
            self.tell(f"{finding.name}: {known.issue.url} was closed by hand, and stays closed")
            return True
        before = Cause(known.mark.cause, is_confirmed=True, is_explained=known.mark.is_explained)
        cause = before if before.is_explained else self.look_into(finding) or before
        if not cause.is_confirmed and not cause.is_explained:
            cause = before
        draft = draft_of(finding, cause, self.around)
        if not draft.is_of(known.issue) or not known.issue.is_open:
            self._insist(lambda: self.tracker.update(known.issue, draft, is_open=True))
            self.tell(f"{finding.name}: {known.issue.url} is updated")
            if cause.lines != before.lines and cause.is_explained:
                self._comment(known.issue, "The cause is known now. The text above names it.")
        else:
            self.tell(f"{finding.name}: {known.issue.url}: nothing new")
        return cause.is_explained

    def _open(self, finding: RecordedFinding) -> bool:
        """Open an issue for a finding that was confirmed; False if it has to wait."""
        cause = self.look_into(finding)
        if cause is None:
            self.tell(f"{finding.name}: waits for the next time: --budget is spent")
            return False
        self.tell(f"{finding.name}: {' '.join(line.strip() for line in cause.lines)}")
        if not cause.is_confirmed:
            return cause.is_explained
        draft = draft_of(finding, cause, self.around)
        return self._insist(lambda: self._create(finding, draft)) and cause.is_explained

    def _create(self, finding: RecordedFinding, draft: Draft) -> bool:
        """Open the issue, unless it is there: another watch may have opened it, or an answer was lost."""
        known = self._known()
        if any(one.is_of(finding) for one in known):
            return True
        since = self.now() - _DAY
        if sum(one.issue.created > since for one in known) >= self.most:
            self.tell(f"{finding.name}: waits for tomorrow: --most {self.most} issues were opened in 24 hours")
            return False
        url = self.tracker.create(draft)
        self.tell(f"{finding.name}: issue {url}: {draft.title}")
        return True

    def _close(self, ended: Ended) -> None:
        issue, mark = ended.known.issue, ended.known.mark
        body = issue.text.partition("\n")[2]
        draft = Draft(issue.title, replace(mark, is_over=True), body)
        self._insist(lambda: self.tracker.update(issue, draft, is_open=False))
        self.tell(f"{mark.finding}: {issue.url} is closed. {ended.why}")
        self._comment(issue, ended.why)

    def _comment(self, issue: Issue, text: str) -> None:
        """Comment once: an answer that is lost is no reason to say it twice."""
        try:
            self.tracker.comment(issue, text)
        except (BenchError, Unavailable) as error:  # the issue itself says the same
            self.tell(f"{issue.url}: not commented: {error}")

    def _insist(self, act: Callable[[], T]) -> T:
        return insist(act, self.tracker.shown, self.tracker.may)
