"""Builds a dashboard of pages, their data and their programs, or brings one up to date."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from curator_bench.errors import BenchError
from curator_bench.package import VERSION
from curator_bench.report.site import data_files, memory, profiles
from curator_bench.report.site.entries import EntryWriter
from curator_bench.report.site.families import families_of
from curator_bench.report.site.folder import SiteFolder, refuse_others
from curator_bench.report.site.heat_map import heat_map
from curator_bench.report.site.links import Logs
from curator_bench.report.site.memory import EntryMemory, GroupMemory, Memory, PairMemory
from curator_bench.report.site.model import (
    FINE,
    EntryState,
    FindingFacts,
    Group,
    GroupFacts,
    History,
    HistoryState,
    PointFacts,
    SessionFacts,
    SiteEntry,
)
from curator_bench.report.site.pages import Pages
from curator_bench.report.site.work_queue import Asked, Progress, WorkQueue

_HERE = Path(__file__).parent
_ASSETS = _HERE / "assets"
_ROWS_ON_OVERVIEW = 50
_ENTRIES_AT_ONCE = 20
"""The number of entries whose newest runs are in memory at once."""
_AT_ONCE_WHILE_SERVED = 5
"""Fewer: somebody may wait for another page meanwhile."""
_FINDINGS_DETAILED = 6
"""The number of findings that the overview describes with their commits and a chart."""
_SESSIONS_COMPARED = 20
"""The number of newest sessions that are compared with the one before them."""
_MOST_COMPARED = 10_000
"""No further sessions are compared after this many judgements."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a dashboard."""

    title: str = "Benchmarks"
    commit_url: str | None = None
    log_url: str | None = None
    copy_logs: bool = False
    is_served: bool = False
    """True for `curator-bench serve`: pages are looked at while others are built, so the overview is written first.
    They also show logs, and tell that there are newer data."""


@dataclass(frozen=True, slots=True)
class Built:
    """The counts of a dashboard that was built."""

    entries: int
    runs: int
    sessions: int
    written: int
    """The number of files that differed and were written."""


def write_site(
    out: Path,
    history: History,
    settings: Settings,
    progress: Progress = lambda done, total: None,
    asked: Asked = lambda: (),
) -> Built:
    """Build a dashboard in `out`, or bring the one there up to date.

    `progress` is called with the number of parts that are done, and of all. `asked` returns the files that somebody
    waits for since its last call; they are written next.

    Raises BenchError if `out` holds something else or cannot be written.
    """
    refuse_others(out)
    try:
        queue = WorkQueue(progress, asked, _AT_ONCE_WHILE_SERVED if settings.is_served else _ENTRIES_AT_ONCE)
        with SiteFolder(out) as site:
            return _Builder(site, history, settings).build(queue)
    except OSError as error:
        raise BenchError(f"{out} cannot be written: {error.strerror or error}") from error


def _digest(texts: Sequence[str]) -> str:
    return hashlib.blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def facts_of(settings: Settings) -> dict[str, str | bool]:
    """Return the variables that all templates share."""
    return {"title": settings.title, "version": VERSION, "build": _own_files(), "is_served": settings.is_served}


def _own_files() -> str:
    """Return a text that changes with the program that builds the pages."""
    files = sorted(path for path in _HERE.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return hashlib.blake2b(b"\0".join(path.read_bytes() for path in files), digest_size=6).hexdigest()


class _Builder:
    def __init__(self, site: SiteFolder, history: History, settings: Settings) -> None:
        self._site, self._history = site, history
        self._sessions = list(history.sessions())
        self._state: HistoryState = history.state()
        facts = facts_of(settings)
        digest = _digest([VERSION, str(facts["build"]), repr(settings), self._state.rules])
        self._old = memory.remembered(site.memory, digest)
        self._is_served = settings.is_served
        self._entries: dict[str, EntryMemory] = {}
        self._judgements: dict[SiteEntry, dict[str | None, GroupFacts]] = defaultdict(dict)
        self._findings: Sequence[FindingFacts] = ()
        self._session_marks: dict[str, str] = {}
        self._compared: dict[str, PairMemory] = {}
        self._are_many = False
        self._slugs = {session.slug for session in self._sessions}
        logs = Logs(site, settings.log_url, settings.copy_logs, settings.is_served)
        self._pages = Pages(site, settings.commit_url, facts)
        self._writer = EntryWriter(site, self._pages, history, logs, self._sessions)
        self._logs = logs

    def build(self, queue: WorkQueue) -> Built:
        for file in sorted(_ASSETS.iterdir()):
            self._site.write(f"assets/{file.name}", file.read_bytes())
        if any(one.profiled for one in self._state.entries):
            profiles.write_assets(self._site)
        changed = self._keep_entries()
        for entry in changed:
            queue.add(f"entries/{entry.entry.slug}", self._write_entries, entry)
        if self._is_served:
            self._outline(changed)
        else:
            queue.do_all()
        self._entries = {one.entry.slug: self._entries[one.entry.slug] for one in self._state.entries}
        self._findings = self._described()
        wanted = dict(self._pairs())
        if self._is_served:
            self._write_lists_and_overview(wanted)
        self._add_sessions(queue)
        self._add_pairs(queue, wanted)
        queue.do_all()
        compared = {name: known for name in wanted if (known := self._compared.get(name))}
        self._write_lists_and_overview(compared)
        return self._finish(compared)

    def _finish(self, compared: Mapping[str, PairMemory]) -> Built:
        remembered = Memory(self._old.settings, self._entries, self._session_marks, compared)
        self._site.finish(memory.as_document(remembered))
        runs = sum(entry.runs for entry in self._state.entries)
        return Built(len(self._entries), runs, len(self._sessions), self._site.written)

    def _judged(self) -> Mapping[Group, GroupFacts]:
        """Judge the groups that changed, and those for which other steps are reported now."""
        changed: set[Group] = set()
        kept: dict[Group, GroupMemory] = {}
        for entry in self._state.entries:
            known = self._old.entries.get(entry.entry.slug)
            groups = {group.machine: group for group in known.groups} if known else {}
            for machine, mark in entry.machines.items():
                group = groups.get(machine)
                if group is None or group.mark != mark or not self._site.keep([group.file]):
                    changed.add((entry.entry, machine))
                else:
                    kept[entry.entry, machine] = group
        found, largest = self._history.judged(changed, memory.beside(list(kept.values())))
        doubtful = {group for group, known in kept.items() if not known.holds(largest)}
        if not doubtful:
            return found
        again = {*changed, *doubtful}
        others = [known for group, known in kept.items() if group not in again]
        return self._history.judged(again, memory.beside(others))[0]

    def _keep_entries(self) -> list[EntryState]:
        """Judge what changed. Keep the entries that are the same as in the last build; return the others."""
        for (entry, machine), facts in self._judged().items():
            self._judgements[entry][machine] = facts
        for one in self._state.entries:
            known = self._unchanged(one, self._judgements)
            if known:
                self._entries[one.entry.slug] = known
        return [one for one in self._state.entries if one.entry.slug not in self._entries]

    def _outline(self, changed: Sequence[EntryState]) -> None:
        """Read of the entries that changed what the overview and the lists show."""
        for first in range(0, len(changed), _ENTRIES_AT_ONCE):
            some = changed[first : first + _ENTRIES_AT_ONCE]
            for entry, newest in zip(some, self._writer.newest(some), strict=True):
                known, judged = self._old.entries.get(entry.entry.slug), self._judgements[entry.entry]
                self._entries[entry.entry.slug] = self._writer.outline(entry, known, judged, newest)

    def _write_entries(self, some: Sequence[EntryState]) -> None:
        """Write these entries. Their newest runs are read together."""
        for entry, newest in zip(some, self._writer.newest(some), strict=True):
            slug = entry.entry.slug
            known, judged = self._old.entries.get(slug), self._judgements[entry.entry]
            self._entries[slug] = self._writer.write(entry, known, judged, newest)

    def _unchanged(self, entry: EntryState, judged: Collection[SiteEntry]) -> EntryMemory | None:
        """Keep the pages and data of an entry if they are the same as in the last build; return what it remembered."""
        known = self._old.entries.get(entry.entry.slug)
        if known is None or known.mark != entry.mark or entry.entry in judged:
            return None
        is_kept = self._slugs.issuperset(known.linked) and self._site.keep(known.all_files)
        return known if is_kept else None

    def _add_sessions(self, queue: WorkQueue) -> None:
        """Keep the sessions that are the same as in the last build, and have the same neighbours; add the others."""
        changed = []
        for earlier, session, later in zip(
            [None, *self._sessions], self._sessions, [*self._sessions[1:], None], strict=False
        ):
            around = [one.slug if one else "" for one in (earlier, later)]
            self._session_marks[session.uid] = mark = _digest([self._state.sessions[session.uid], *around])
            names = f"sessions/{session.slug}.html", f"data/sessions/{session.slug}.js"
            if self._old.sessions.get(session.uid) != mark or not self._site.keep(names):
                changed.append((earlier, session, later))
        for one in reversed(changed):
            queue.add(f"sessions/{one[1].slug}", self._write_sessions, one)

    def _write_sessions(self, some: Sequence[tuple[SessionFacts | None, SessionFacts, SessionFacts | None]]) -> None:
        for earlier, session, later in some:
            self._write_session(session, earlier, later)

    def _write_session(self, session: SessionFacts, earlier: SessionFacts | None, later: SessionFacts | None) -> None:
        ran, key = self._history.ran(session), f"sessions/{session.slug}"
        self._site.write(f"data/{key}.js", data_files.handed_over(key, data_files.session(session, ran)))
        rows = [(entry, run, self._logs.address(run.log_path, session.results, run.uid)) for entry, run in ran]
        rows.sort(key=lambda one: (one[1].verdict in FINE, one[0]))
        around = {"earlier": earlier, "later": later}
        self._pages.write(
            f"{key}.html", "session", session=session, ran=rows, commits={run.commit for _, run in ran}, **around
        )

    def _add_pairs(self, queue: WorkQueue, wanted: Mapping[str, tuple[SessionFacts, SessionFacts]]) -> None:
        """Add the pairs of sessions that pages link to."""
        marks = dict(self._marks_until())
        self._are_many = len(wanted) > _FEW and not self._old.pairs
        for name, (a, b) in wanted.items():
            queue.add(f"compared/{name}", self._write_pairs, (name, a, b, _digest([marks[a.uid], marks[b.uid]])))

    def _write_pairs(self, some: Sequence[tuple[str, SessionFacts, SessionFacts, str]]) -> None:
        """Write the judgements of pairs. A large history takes long to judge, so the first pairs only."""
        for name, a, b, mark in some:
            if sum(one.judgements for one in self._compared.values()) >= _MOST_COMPARED:
                return
            file, known = f"data/compared/{name}.js", self._old.pairs.get(name)
            if known is None or known.mark != mark or not self._site.keep([file]):
                rows = self._history.compared(a, b, is_one_of_many=self._are_many)
                self._site.write(file, data_files.handed_over(f"compared/{name}", data_files.compared(rows)))
                known = PairMemory(mark, len(rows))
            self._compared[name] = known

    def _marks_until(self) -> Iterator[tuple[str, str]]:
        """Yield for each session a mark of it and of all before it."""
        mark = ""
        for earlier in self._state.earlier:
            mark = _digest([mark, earlier])
        for session in self._sessions:
            mark = _digest([mark, self._state.sessions[session.uid]])
            yield session.uid, mark

    def _pairs(self) -> Iterator[tuple[str, tuple[SessionFacts, SessionFacts]]]:
        """Yield the pairs that pages link to: sessions around a step on the overview, and each with the one before."""
        newest = list(pairwise(self._sessions[-_SESSIONS_COMPARED - 1 :]))[::-1]
        for a, b in [*newest[:1], *self._around_findings(), *newest[1:]]:
            yield f"{a.slug}/{b.slug}", (a, b)

    def _around_findings(self) -> Iterator[tuple[SessionFacts, SessionFacts]]:
        by_slug = {session.slug: session for session in self._sessions}
        for finding in [*self._open()[:_ROWS_ON_OVERVIEW], *self._improvements()[:_ROWS_ON_OVERVIEW]]:
            worst = finding.steps[0]
            a, b = (by_slug.get(point.session_slug or "") for point in (worst.before, worst.first))
            if a is not None and b is not None and a is not b:
                yield a, b

    def _open(self) -> list[FindingFacts]:
        return [one for one in self._findings if one.state == "open"]

    def _improvements(self) -> list[FindingFacts]:
        return [one for one in self._findings if one.kind == "improvement"]

    def _groups(self) -> list[GroupMemory]:
        return [group for entry in self._entries.values() for group in entry.groups]

    def _described(self) -> list[FindingFacts]:
        """Return the findings, the open ones first, as the pages of this build name them."""
        latest = next((one.slug for one in reversed(self._sessions) if one.runs), None)
        recorded = [step for group in self._groups() for step in group.recorded]
        return [
            replace(
                one,
                before=self._with_page(one.before),
                first=self._with_page(one.first),
                steps=tuple(
                    replace(step, before=self._with_page(step.before), first=self._with_page(step.first))
                    for step in one.steps
                ),
                is_new=latest is not None and any(step.first.session_slug == latest for step in one.steps),
            )
            for one in self._history.findings(recorded, _FINDINGS_DETAILED)
        ]

    def _with_page(self, point: PointFacts) -> PointFacts:
        return point if point.session_slug in self._slugs else replace(point, session_slug=None)

    def _write_lists_and_overview(self, compared: Collection[str]) -> None:
        """Write the pages about all entries and sessions; `compared` are the pairs of sessions that are judged."""
        self._write_lists(list(compared))
        self._write_overview()

    def _write_lists(self, judged: Sequence[str]) -> None:
        entries = [
            {
                "slug": one.status.entry.slug,
                "name": one.status.entry.name,
                "path": one.status.entry.path,
                "original": one.original,
                "metrics": one.metrics,
            }
            for one in self._entries.values()
        ]
        index = data_files.index(entries, self._sessions, judged)
        self._site.write("data/index.js", data_files.handed_over("index", index))
        families = families_of([one.status for one in self._entries.values()], self._history.axes())
        self._site.write("data/axes.js", data_files.handed_over("axes", data_files.axes(families)))
        commits = data_files.commits(self._history.commits())
        self._site.write("data/commits.js", data_files.handed_over("commits", commits))
        self._pages.write("sessions.html", "sessions", sessions=self._sessions[::-1])
        open_steps = Counter(step.entry for one in self._open() for step in one.steps if step.state == "open")
        statuses = [one.status for one in self._entries.values()]
        self._pages.write("entries.html", "entries", statuses=statuses, open_steps=open_steps)
        self._pages.write("compare.html", "compare")
        self._pages.write("axes.html", "axes", families=families)

    def _write_overview(self) -> None:
        statuses = [one.status for one in self._entries.values()]
        broken = [status for status in statuses if status.broken_since]
        notable = [one for group in self._groups() for one in group.notable]
        blind = sorted(
            (one for one in notable if one.is_blind), key=lambda one: (not one.is_gated, -(one.visible or 0))
        )
        drifts = [one for group in self._groups() for one in group.drifts]
        self._pages.write(
            "index.html",
            "overview",
            latest=next((one for one in reversed(self._sessions) if one.runs), None),
            most=_ROWS_ON_OVERVIEW,
            detailed=_FINDINGS_DETAILED,
            findings=self._open(),
            improvements=self._improvements(),
            heat=heat_map(list(self._entries.values()), self._sessions),
            drifts=sorted(drifts, key=lambda one: -abs(one.change)),
            inconclusive=[one for one in notable if one.says == "inconclusive"],
            blind=blind,
            left_out=[*(one for group in self._groups() for one in group.left_out), *self._history.disturbed()],
            broken=sorted(broken, key=lambda one: one.latest.start, reverse=True),
            statuses=statuses,
        )


_FEW = 2
"""Up to this number, pairs are judged one by one; for more, the whole history is read at once."""
