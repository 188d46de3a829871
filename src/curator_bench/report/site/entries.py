"""Writes the page of an entry and its data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from curator_bench.metric_names import is_secondary
from curator_bench.report.site import data_files, memory
from curator_bench.report.site.data_files import MetricFacts, handed_over, number_of
from curator_bench.report.site.folder import SiteFolder
from curator_bench.report.site.links import Logs, slug
from curator_bench.report.site.memory import BlockMemory, EntryMemory, EntryStatus, GroupMemory
from curator_bench.report.site.model import (
    MEASURED,
    Directions,
    EntryState,
    GroupFacts,
    History,
    RunFacts,
    SessionFacts,
    SiteEntry,
    StepFacts,
)
from curator_bench.report.site.pages import Pages
from curator_bench.report.site.profiles import ProfileWriter

_RUNS_SHOWN = 25
_BLOCKS_SHOWN = 2
"""The number of newest blocks whose runs the page of an entry shows."""
_BLOCKS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric in the table on an entry's page."""

    name: str
    better: str | None
    is_required: bool
    has_chart: bool
    latest: float | None
    values: Sequence[float]
    steps: Sequence[StepFacts]
    says: str
    """The word for the newest runs on the newest run's machine; empty if they are not judged."""
    sight: str
    """Changes that the runs cannot show, in words."""


class EntryWriter:
    """Writes entries into a dashboard. Of a known entry, only the blocks and the machines that changed are written."""

    def __init__(
        self, site: SiteFolder, pages: Pages, history: History, logs: Logs, sessions: Sequence[SessionFacts]
    ) -> None:
        self._site, self._pages, self._history, self._logs = site, pages, history, logs
        self._profiles = ProfileWriter(site, pages, history)
        self._results = {session.slug: session.results for session in sessions}

    def newest(self, states: Sequence[EntryState]) -> list[Mapping[int, Sequence[RunFacts]]]:
        """Read the newest blocks of each entry, by number. To ask for each of them alone takes twice as long."""
        numbers = [range(max(0, len(state.blocks) - _BLOCKS_SHOWN), len(state.blocks)) for state in states]
        wanted = [(state.entry, number) for state, own in zip(states, numbers, strict=True) for number in own]
        found = iter(self._history.blocks(wanted))
        return [{number: next(found) for number in own} for own in numbers]

    def outline(
        self,
        state: EntryState,
        known: EntryMemory | None,
        judged: Mapping[str | None, GroupFacts],
        newest: Mapping[int, Sequence[RunFacts]],
    ) -> EntryMemory:
        """Return what the overview and the lists show of an entry whose page and runs are not written yet.

        `judged` are the machines that were judged again; the others are in `known`. `newest` are its newest blocks.
        """
        metrics = tuple(data_files.drawn_names(_runs_of(newest)))
        return replace(self._begun(state, known, judged, newest), metrics=metrics)

    def _begun(
        self,
        state: EntryState,
        known: EntryMemory | None,
        judged: Mapping[str | None, GroupFacts],
        newest: Mapping[int, Sequence[RunFacts]],
    ) -> EntryMemory:
        groups = tuple(self._write_groups(state, known, judged))
        return EntryMemory(state.mark, self._status(state, _runs_of(newest)), state.original, (), (), groups, (), ())

    def write(
        self,
        state: EntryState,
        known: EntryMemory | None,
        judged: Mapping[str | None, GroupFacts],
        newest: Mapping[int, Sequence[RunFacts]],
    ) -> EntryMemory:
        """Write an entry."""
        begun = self._begun(state, known, judged, newest)
        groups, status = begun.groups, begun.status
        blocks = self._write_blocks(state, known, newest)
        recent = _runs_of(newest)
        metrics = self._metrics(state.entry, blocks, groups, recent)
        machines = {one.machine: one for one in groups}
        rows = _rows(metrics, recent, machines)
        key = f"entries/{state.entry.slug}"
        listed = [[one.machine or "", slug(one.machine or "", "machine")] for one in groups]
        facts = [MetricFacts(one.name, one.better, one.is_required, one.has_chart) for one in rows]
        head = data_files.head(
            state.entry, state.original, facts, [(block.runs, block.digest) for block in blocks], listed
        )
        files: tuple[str, ...] = (f"data/{key}.js", f"{key}.html")
        self._site.write(files[0], handed_over(key, head))
        linked = self._write_page(files[1], status, rows, groups, recent, state.profiled)
        files = (*files, *self._profiles.write(state))
        names = tuple(one.name for one in rows)
        return replace(begun, metrics=names, blocks=tuple(blocks), files=files, linked=linked)

    def _write_groups(
        self, state: EntryState, known: EntryMemory | None, judged: Mapping[str | None, GroupFacts]
    ) -> list[GroupMemory]:
        before = {group.machine: group for group in known.groups} if known else {}
        groups = []
        for machine, mark in state.machines.items():
            if machine in judged:
                key = f"entries/{state.entry.slug}/{slug(machine or '', 'machine')}"
                self._site.write(f"data/{key}.js", handed_over(key, data_files.judged(judged[machine])))
                groups.append(memory.of_group(mark, f"data/{key}.js", judged[machine]))
            else:
                groups.append(before[machine])
        return groups

    def _write_blocks(
        self, state: EntryState, known: EntryMemory | None, newest: Mapping[int, Sequence[RunFacts]]
    ) -> list[BlockMemory]:
        """Write the blocks that changed."""
        before = known.blocks if known else ()
        blocks = {
            number: old
            for number, ((mark, _), old) in enumerate(zip(state.blocks, before, strict=False))
            if old.mark == mark and self._site.keep([old.file, *old.logs])
        }
        changed = [number for number in range(len(state.blocks)) if number not in blocks]
        for number, runs in self._runs_of_blocks(state.entry, changed, newest):
            blocks[number] = self._write_block(state.entry, number, state.blocks[number][0], runs)
        return [blocks[number] for number in range(len(state.blocks))]

    def _runs_of_blocks(
        self, entry: SiteEntry, numbers: Sequence[int], newest: Mapping[int, Sequence[RunFacts]]
    ) -> Iterator[tuple[int, Sequence[RunFacts]]]:
        """Yield these blocks with their runs; a few at a time are read."""
        older = [number for number in numbers if number not in newest]
        for first in range(0, len(older), _BLOCKS_AT_ONCE):
            some = older[first : first + _BLOCKS_AT_ONCE]
            yield from zip(some, self._history.blocks([(entry, number) for number in some]), strict=True)
        yield from ((number, newest[number]) for number in numbers if number in newest)

    def _write_block(self, entry: SiteEntry, number: int, mark: str, runs: Sequence[RunFacts]) -> BlockMemory:
        key = f"entries/{entry.slug}/{number}"
        logs = [self._log(run) for run in runs]
        digest = self._site.write(f"data/{key}.js", handed_over(key, data_files.block(runs, logs)))
        copies = tuple(log for log in logs if log and self._logs.is_copy(log))
        return BlockMemory(mark, len(runs), f"data/{key}.js", digest, copies, tuple(data_files.drawn_names(runs)))

    def _log(self, run: RunFacts) -> str | None:
        return self._logs.address(run.log_path, self._results.get(run.session_slug, ""), run.uid)

    def _metrics(
        self, entry: SiteEntry, blocks: Sequence[BlockMemory], groups: Sequence[GroupMemory], recent: Sequence[RunFacts]
    ) -> tuple[list[str], Directions, Sequence[StepFacts]]:
        """Return the names of metrics in display order, their directions, and all steps, newest first."""
        names = sorted({name for block in blocks for name in block.metrics})
        directions = self._history.directions(entry, names)
        steps = sorted((step for group in groups for step in group.steps), key=lambda one: one.first.start)[::-1]
        stepped = {step.metric for step in steps}
        first = {name: place for place, name in enumerate(directions.first)}

        def order(name: str) -> tuple[int, bool, bool, str]:
            return first.get(name, len(first)), name not in stepped, name not in directions.better, name

        shown = [name for name in names if not is_secondary(name, names)]
        return sorted(shown, key=order), directions, steps

    def _status(self, state: EntryState, recent: Sequence[RunFacts]) -> EntryStatus:
        latest = recent[-1]
        durations = [run.duration for run in recent if run.duration is not None and run.verdict in MEASURED]
        return EntryStatus(
            entry=state.entry,
            runs=state.runs,
            latest=replace(latest, metrics={}),
            log=self._log(latest),
            durations=tuple(float(f"{one:.4g}") for one in durations),
            broken_since=_without_metrics(self._history.broken_since(state.entry)) if state.broken else None,
            broken_sessions=state.broken,
        )

    def _write_page(
        self,
        file: str,
        status: EntryStatus,
        rows: Sequence[MetricRow],
        groups: Sequence[GroupMemory],
        recent: Sequence[RunFacts],
        profiled: Sequence[RunFacts],
    ) -> tuple[str, ...]:
        """Write the page. Return the names of the pages of sessions it links to."""
        shown = [(run, self._log(run)) for run in recent[-_RUNS_SHOWN:][::-1]]
        steps = sorted((step for group in groups for step in group.steps), key=lambda one: one.first.start)[::-1]
        steps = [self._linked(step) for step in steps]
        points = [point.session_slug for step in steps for point in (step.before, step.first)]
        wanted = {*points, *(run.session_slug for run, _ in shown)}
        linked = tuple(sorted(name for name in wanted if name in self._results))
        self._pages.write(
            file,
            "entry",
            status=status,
            metrics=rows,
            shown=shown,
            linked=frozenset(linked),
            steps=steps,
            profiled=frozenset(run.uid for run in profiled),
            drifts=[drift for group in groups for drift in group.drifts],
        )
        return linked

    def _linked(self, step: StepFacts) -> StepFacts:
        before, first = (
            replace(point, session_slug=point.session_slug if point.session_slug in self._results else None)
            for point in (step.before, step.first)
        )
        return replace(step, before=before, first=first, is_new=False)


def _runs_of(blocks: Mapping[int, Sequence[RunFacts]]) -> list[RunFacts]:
    return [run for _, runs in sorted(blocks.items()) for run in runs]


def _without_metrics(run: RunFacts | None) -> RunFacts | None:
    return None if run is None else replace(run, metrics={})


def _rows(
    metrics: tuple[list[str], Directions, Sequence[StepFacts]],
    recent: Sequence[RunFacts],
    groups: Mapping[str | None, GroupMemory],
) -> list[MetricRow]:
    """Return the rows of recent runs that are comparable with the newest run that measured anything."""
    names, directions, steps = metrics
    measured = [run for run in recent if run.verdict in MEASURED and run.metrics] or recent
    newest = measured[-1]
    alike = [run for run in measured if (run.machine, run.series) == (newest.machine, newest.series)]
    says = groups[newest.machine].says
    rows = []
    for name in names:
        values = [number for run in alike if (number := number_of(run.metrics.get(name))) is not None]
        better, is_required = directions.better.get(name), name in directions.first
        own = [step for step in steps if step.metric == name]
        rows.append(
            MetricRow(
                name=name,
                better=better,
                is_required=is_required,
                has_chart=is_required or better is not None or len(set(values)) > 1,
                latest=number_of(newest.metrics.get(name)),
                values=values,
                steps=own,
                says=says.get(name, ["", ""])[0],
                sight=says.get(name, ["", ""])[1],
            )
        )
    return rows
