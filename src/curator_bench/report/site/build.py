"""Builds a dashboard of pages, their data and their programs. When complete, it replaces the previous one."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from curator_bench.errors import BenchError
from curator_bench.package import VERSION
from curator_bench.report.site.data_files import DataFiles, EntryView, index_of, number_of
from curator_bench.report.site.links import Logs
from curator_bench.report.site.model import (
    FINE,
    MEASURED,
    ComparedFacts,
    History,
    RunFacts,
    SeriesFacts,
    SessionFacts,
    SiteEntry,
    StepFacts,
    by_entry,
    numbers_of,
)
from curator_bench.report.site.pages import Pages

MARKER = ".curator-bench-site"
"""The file that marks a dashboard. A folder without it is not replaced."""
_ASSETS = Path(__file__).with_name("assets")
_RUNS_SHOWN = 50
_SESSIONS_ON_OVERVIEW = 30
_ROWS_ON_OVERVIEW = 50
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


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of an entry, for lists of entries."""

    entry: SiteEntry
    runs: int
    latest: RunFacts
    latest_session: str | None
    log: str | None
    durations: Sequence[float]
    broken_since: RunFacts | None
    """The first run since the last fine one; None if the latest run is fine."""
    broken_runs: int
    steps: Sequence[StepFacts]


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric in the table on an entry's page."""

    name: str
    better: str | None
    latest: float | None
    values: Sequence[float]
    steps: Sequence[StepFacts]
    judged: SeriesFacts | None
    """The judgement of the newest runs on the newest run's machine; None if not judged."""


@dataclass(frozen=True, slots=True)
class Built:
    """The counts of a dashboard that was built."""

    entries: int
    runs: int
    sessions: int


def _first_reason(error: OSError) -> str:
    """Return the reason of the first file that could not be copied: copytree tries all, and lists each failure."""
    listed = error.args[0] if isinstance(error, shutil.Error) else None
    return str(listed[0][2] if listed else error.strerror or error)


def write_site(out: Path, history: History, settings: Settings, now: datetime | None = None) -> Built:
    """Build a dashboard in `out`. Raises BenchError if `out` holds something else or cannot be written."""
    _refuse_to_replace(out)
    building = out.with_name(f".{out.name}.unfinished-{os.getpid()}")
    try:
        shutil.copytree(_ASSETS, building / "assets")
        built = _Builder(building, out, history, settings, now or datetime.now(UTC)).build()
        (building / MARKER).touch()
        _put_in_place(building, out)
    except OSError as error:
        raise BenchError(f"{out} cannot be written: {_first_reason(error)}") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return built


def _refuse_to_replace(out: Path) -> None:
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER).exists():
        raise BenchError(f"{out} contains something other than a dashboard; name an empty or a new folder")
    if out.exists() and not out.is_dir():
        raise BenchError(f"{out} is a file; name a folder")


def _put_in_place(building: Path, out: Path) -> None:
    """Replace the old dashboard, which is missing only for an instant."""
    old = building.with_name(f"{building.name}-old")
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.exists():
        out.rename(old)
    building.rename(out)
    shutil.rmtree(old, ignore_errors=True)


class _Builder:
    def __init__(self, building: Path, out: Path, history: History, settings: Settings, now: datetime) -> None:
        self._history = history
        self._sessions = list(history.sessions())
        self._by_uid = {session.uid: session for session in self._sessions}
        self._slugs = {session.uid: session.slug for session in self._sessions}
        self._steps = by_entry(history.steps())
        self._drifts = by_entry(history.drifts())
        self._series = by_entry(history.series())
        self._logs = Logs(out.absolute(), building, settings.log_url, settings.copy_logs)
        self._data = DataFiles(building)
        facts = {"title": settings.title, "built": now, "version": VERSION, "build": f"{now:%Y%m%d%H%M%S}"}
        self._pages = Pages(building, settings.commit_url, facts)
        self._ran: dict[str, list[tuple[SiteEntry, RunFacts, str | None]]] = {}
        self._standings: list[Standing] = []

    def build(self) -> Built:
        index = [self._write_entry(entry) for entry in self._history.entries()]
        compared = self._compared()
        for session in self._sessions:
            self._data.write_session(session, compared.get(session.uid, {}))
        self._data.write_index(index, self._sessions)
        self._write_sessions()
        self._write_overview()
        self._pages.write("entries.html", "entries", standings=self._standings)
        self._pages.write("compare.html", "compare")
        runs = sum(standing.runs for standing in self._standings)
        return Built(len(self._standings), runs, len(self._sessions))

    def _write_entry(self, entry: SiteEntry) -> dict[str, object]:
        view = self._view(entry)
        logs = [self._log(run) for run in view.runs]
        for run, log in zip(view.runs, logs, strict=True):
            if run.session_uid in self._by_uid:
                self._ran.setdefault(run.session_uid, []).append((entry, replace(run, metrics={}), log))
        self._data.write_entry(view, self._by_uid, logs)
        standing = self._standing(view, logs[-1])
        self._standings.append(standing)
        shown = list(zip(view.runs, logs, strict=True))[-_RUNS_SHOWN:][::-1]
        self._pages.write(
            f"entries/{entry.slug}.html",
            "entry",
            standing=standing,
            metrics=_metric_rows(view),
            shown=shown,
            slugs=self._slugs,
            steps=view.steps[::-1],
            drifts=self._drifts.get(entry, ()),
        )
        return index_of(view)

    def _view(self, entry: SiteEntry) -> EntryView:
        runs = self._history.runs(entry)
        names = list(numbers_of(runs))
        directions = self._history.directions(entry, names)
        shown = [name for name in names if name not in directions.beside]
        steps = self._steps.get(entry, [])
        stepped = {step.metric for step in steps}
        first = {name: place for place, name in enumerate(directions.first)}

        def order(name: str) -> tuple[int, bool, bool, str]:
            return first.get(name, len(first)), name not in stepped, name not in directions.better, name

        return EntryView(entry, runs, sorted(shown, key=order), directions, steps, self._series.get(entry, []))

    def _log(self, run: RunFacts) -> str | None:
        session = self._by_uid.get(run.session_uid)
        return self._logs.address(run.log_path, session.results if session else "", run.uid)

    def _standing(self, view: EntryView, log: str | None) -> Standing:
        latest, broken = view.runs[-1], _broken(view.runs)
        durations = [run.duration for run in view.runs if run.duration is not None and run.verdict in MEASURED]
        session = self._by_uid.get(latest.session_uid)
        return Standing(
            entry=view.entry,
            runs=len(view.runs),
            latest=latest,
            latest_session=session.slug if session else None,
            log=log,
            durations=durations,
            broken_since=broken[0] if broken else None,
            broken_runs=len(broken),
            steps=view.steps,
        )

    def _write_sessions(self) -> None:
        newest_first = self._sessions[::-1]
        self._pages.write("sessions.html", "sessions", sessions=newest_first)
        for place, session in enumerate(self._sessions):
            earlier = self._sessions[place - 1] if place else None
            later = self._sessions[place + 1] if place + 1 < len(self._sessions) else None
            ran = sorted(self._ran.get(session.uid, ()), key=lambda one: (one[1].verdict in FINE, one[0]))
            self._pages.write(
                f"sessions/{session.slug}.html", "session", session=session, ran=ran, earlier=earlier, later=later
            )

    def _compared(self) -> dict[str, dict[str, Sequence[ComparedFacts]]]:
        """Return judgements of a session against another, by the session's uid and the other one's page.

        A large history takes long to judge, so only the first pairs are compared.
        """
        found: dict[str, dict[str, Sequence[ComparedFacts]]] = {}
        judged = 0
        for a, b in self._pairs():
            if judged < _MOST_COMPARED and a.slug not in found.get(b.uid, {}):
                rows = self._history.compared(a, b)
                found.setdefault(b.uid, {})[a.slug] = rows
                judged += len(rows)
        return found

    def _pairs(self) -> Iterator[tuple[SessionFacts, SessionFacts]]:
        """Return the pairs that pages link to: sessions around a step on the overview, and each with the one before."""
        by_slug = {session.slug: session for session in self._sessions}
        newest = list(pairwise(self._sessions[-_SESSIONS_COMPARED - 1 :]))[::-1]
        yield from newest[:1]
        for step in [*self._open_steps()[:_ROWS_ON_OVERVIEW], *self._improvements()[:_ROWS_ON_OVERVIEW]]:
            a, b = (by_slug.get(point.session_slug or "") for point in (step.before, step.first))
            if a is not None and b is not None and a is not b:
                yield a, b
        yield from newest[1:]

    def _newest_steps(self) -> list[StepFacts]:
        steps = [step for found in self._steps.values() for step in found]
        return sorted(steps, key=lambda step: step.first.start, reverse=True)

    def _open_steps(self) -> list[StepFacts]:
        return [step for step in self._newest_steps() if step.state == "open"]

    def _improvements(self) -> list[StepFacts]:
        return [step for step in self._newest_steps() if step.kind == "improvement"]

    def _write_overview(self) -> None:
        open_steps = self._open_steps()
        broken = [standing for standing in self._standings if standing.broken_since]
        series = [one for found in self._series.values() for one in found]
        inconclusive = [one for one in series if one.says == "inconclusive"]
        blind = sorted((one for one in series if one.is_blind), key=lambda one: (not one.is_gated, -(one.visible or 0)))
        drifts = [one for found in self._drifts.values() for one in found]
        self._pages.write(
            "index.html",
            "overview",
            latest=next((one for one in reversed(self._sessions) if one.runs), None),
            recent=self._sessions[-_SESSIONS_ON_OVERVIEW:],
            most=_ROWS_ON_OVERVIEW,
            regressions=open_steps,
            improvements=self._improvements(),
            drifts=sorted(drifts, key=lambda one: -abs(one.change)),
            inconclusive=inconclusive,
            blind=blind,
            broken=sorted(broken, key=lambda one: one.latest.start, reverse=True),
            standings=self._standings,
            verdicts=Counter(standing.latest.verdict for standing in self._standings),
        )


def _broken(runs: Sequence[RunFacts]) -> list[RunFacts]:
    """Return the runs after the last fine one."""
    found: list[RunFacts] = []
    for run in reversed(runs):
        if run.verdict in FINE:
            break
        found.append(run)
    return found[::-1]


def _metric_rows(view: EntryView) -> list[MetricRow]:
    """Return the rows of runs that are comparable with the newest run that measured anything."""
    measured = [run for run in view.runs if run.verdict in MEASURED and run.metrics] or view.runs
    newest = measured[-1]
    alike = [run for run in measured if (run.machine, run.definition) == (newest.machine, newest.definition)]
    rows = []
    for name in view.metrics:
        values = [number for run in alike if (number := number_of(run.metrics.get(name))) is not None]
        latest = number_of(newest.metrics.get(name))
        steps = [step for step in view.steps if step.metric == name]
        judged = next((one for one in view.series if (one.metric, one.machine) == (name, newest.machine)), None)
        rows.append(MetricRow(name, view.directions.better.get(name), latest, values, steps, judged))
    return rows
