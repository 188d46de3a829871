"""`curator-bench history`: shows the measurements of an entry run by run, or lists the entries."""

from __future__ import annotations

import csv
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from curator_bench.cli import judgements, tables
from curator_bench.cli.databases import db_option, here, reading
from curator_bench.cli.names import moment_of
from curator_bench.cli.parameters import scope_options
from curator_bench.cli.show import run_document
from curator_bench.errors import BenchError
from curator_bench.files.codec import json_text
from curator_bench.metric_names import in_order
from curator_bench.words import csv_cells

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

    from curator_bench.store.queries import EntryKey, PastRun
    from curator_bench.verdict.judgement import Judgement

_SHOWN = 20
_LETTERS = 40
"""The length of the longest sparkline."""
_CSV = ("name", "path", "session", "started_at", "verdict", "attempt", "commit", "machine_id", "definition_hash")


@dataclass(frozen=True)
class _Scope:
    """Conditions on runs: those that judgements are made of, and those of them that are shown."""

    judged: ColumnElement[bool]
    shown: ColumnElement[bool]


@dataclass(frozen=True)
class _History:
    """The runs of one entry, oldest first."""

    entry: EntryKey
    runs: Sequence[PastRun]
    judged: Mapping[str, Judgement] = field(default_factory=dict)
    """The judgements of the newest runs, by metric."""
    first: Sequence[str] = ()
    """Metrics with requirements. They come first."""
    gates: Mapping[str, float] = field(default_factory=dict)
    """The limit of each metric that has a gate."""

    @property
    def kinds(self) -> Counter[tuple[str | None, str | None]]:
        """The number of runs by machine and series. Only runs of equal ones are compared."""
        return Counter(_kind(run) for run in self.runs)

    @property
    def alike(self) -> Sequence[PastRun]:
        """The runs that are comparable with the newest one."""
        return [run for run in self.runs if _kind(run) == _kind(self.runs[-1]) and not run.disturbed]

    @property
    def has_history(self) -> bool:
        """False for the runs of bisects and A/B comparisons."""
        return not self.runs[-1].hunt

    @cached_property
    def marks(self) -> Mapping[str, str]:
        """Notes on runs before which the definition changed, though not the series, by their uids."""
        found, before = {}, dict[tuple[str | None, str | None], str | None]()
        for run in self.runs:
            kind = _kind(run)
            if before.get(kind, run.content_hash) != run.content_hash:
                found[run.uid] = "definition changed here"
            before[kind] = run.content_hash
        return found

    def note(self, run: PastRun) -> str:
        """Return the notes on one run, such as that it was disturbed."""
        disturbed = f"disturbed, no history: {run.disturbed}" if run.disturbed else ""
        return "; ".join(filter(None, [self.marks.get(run.uid, ""), disturbed]))

    @property
    def has_notes(self) -> bool:
        return bool(self.marks) or any(run.disturbed for run in self.runs)


@click.command("history")
@click.argument("entry", required=False)
@click.argument("named_metric", metavar="[METRIC]", required=False)
@db_option
@click.option("--metric", help="the same as METRIC")
@click.option("--last", type=click.IntRange(1), help=f"number of runs (default: {_SHOWN} in tables, else all)")
@scope_options
@click.option("--hunts", is_flag=True, help="the runs of bisects and A/B comparisons, which are no history")
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of tables")
@click.option("--csv", "as_csv", is_flag=True, help="print CSV with a line per value")
def command(
    entry: str | None,
    named_metric: str | None,
    database: str,
    metric: str | None,
    last: int | None,
    branch: str | None,
    machine: str | None,
    since: datetime | str | None,
    hunts: bool,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Print the recorded runs of ENTRY. Without ENTRY, list the entries.

    ENTRY is an id, the common name of all combinations, or a node id. With METRIC, print each of its values.
    """
    from curator_bench.cli.machine_hints import hints_of_entries
    from curator_bench.store.scope import in_scope

    if named_metric and metric and named_metric != metric:
        raise click.UsageError(f"found the metrics {named_metric} and {metric}, expected one")
    metric = named_metric or metric
    if entry is None and (metric or as_csv or since or branch or machine):
        raise click.UsageError("name an ENTRY; `curator-bench history` lists them")
    with reading(database) as opened, opened.reading() as connection:
        if entry is None:
            _print_entries(connection, last or _SHOWN, hunts=hunts, as_json=as_json)
            return
        most = None if (as_json or as_csv) and last is None else last or _SHOWN
        moment = moment_of(connection, since)
        scope = _Scope(in_scope(connection, branch, machine), in_scope(connection, branch, machine, moment))
        found = _find(connection, entry, metric, most, scope, hunts=hunts)
        hints = [] if as_json or as_csv or hunts else hints_of_entries(connection, [one.entry for one in found])
    if as_json:
        click.echo(json_text(_document(found)), nl=False)
    elif as_csv:
        _print_csv(found)
    else:
        for number, one in enumerate(found):
            tables.say("\n" if number else "", nl=False)
            _print(one, metric)
            for line in (*(() if hunts else _why_not_judged(one)), *_order(one)):
                tables.say(line)
        for hint in hints:
            tables.say(hint)


def _find(
    connection: Connection, named: str, metric: str | None, last: int | None, scope: _Scope, *, hunts: bool
) -> list[_History]:
    from curator_bench.cli.newest import newest_judgements
    from curator_bench.store import queries
    from curator_bench.store.all_series import gate_limits, required_metrics
    from curator_bench.store.dead_runs import gone_runs

    entries = queries.find_entries(connection, named, hunts=hunts)
    gone = gone_runs(connection, here())
    required, limits = required_metrics(connection), gate_limits(connection)
    found = [
        _History(
            entry,
            queries.history(connection, entry, last, metric, hunts=hunts, among=scope.shown, gone=gone),
            {} if hunts else newest_judgements(connection, entry, scope.judged),
            required.get((entry.name, entry.path), ()),
            {
                metric: limit
                for (name, path, metric), limit in limits.items()
                if (name, path) == (entry.name, entry.path)
            },
        )
        for entry in entries
    ]
    found = [one for one in found if one.runs]
    if not found:
        raise BenchError(f"no run of {named} is of this branch, this machine and this time")
    if metric is not None and not any(run.metrics for one in found for run in one.runs):
        names = queries.metric_names(connection, entries, hunts=hunts)
        few = "" if metric not in names else f" in the last {last} runs"
        raise BenchError(f"{named} has no metric {metric!r}{few}{queries.nearest(metric, names)}")
    return found


def _print(found: _History, metric: str | None) -> None:
    from curator_bench.verdict.cases import MIN_EFFECT

    newest = found.runs[-1]
    tables.say(f"{tables.printable(found.entry.name)}  {tables.printable(found.entry.path)}".rstrip())
    for line in _warnings(found):
        tables.say(line)
    tables.say("")
    if metric is not None:
        _print_values(found, metric)
        return
    heads = tables.columns("STARTED (UTC)", "SESSION", "VERDICT", ">DURATION", "COMMIT", *_kind_titles(found))
    tables.print_table(heads, [(*_of_run(run), *_kind_cells(found, run)) for run in found.runs])
    if any(run.metrics for run in found.alike):
        tables.say("")
        figures = (">RUNS", ">LATEST", ">MEDIAN", ">LOWEST", ">HIGHEST")
        heads = tables.columns("METRIC", *figures, "TREND", ">VISIBLE", "VERDICT")
        names = in_order([name for run in [newest, *found.alike] for name in run.metrics], found.first)
        tables.print_table(heads, [(*_of_metric(name, found.alike), *_says(found.judged.get(name))) for name in names])
        open_ones = [(name, judged) for name in names if (judged := found.judged.get(name)) and judged.decides]
        for line in judgements.notes(open_ones):
            tables.say(line)
        gated = {
            name: limit for name, limit in found.gates.items() if (judged := found.judged.get(name)) and judged.word
        }
        if gated:
            limits = ", ".join(f"{name} {tables.share(limit)}" for name, limit in gated.items())
            tables.say(f"{judgements.limit_line(MIN_EFFECT)}: {limits}")


def _why_not_judged(found: _History) -> Iterator[str]:
    """Yield a line if all runs here are disturbed, so that nothing is judged."""
    if all(run.disturbed for run in found.runs):
        yield "no run here is history, because all were disturbed; `--bench-disturbed count` lets later ones count"


def _order(found: _History) -> Iterator[str]:
    """Yield a line that says how many runs are ordered by time, and why; nothing if all are ordered by commit."""
    unknown = [run for run in found.runs if run.commit_depth is None]
    resumed = sum(run.committed_at is not None for run in unknown)
    why = ["a session that was resumed at another commit has no commit of its own"] if resumed else []
    if resumed < len(unknown):
        why.append("the order of commits is not known outside of a git repository, or in a shallow clone")
    if len(unknown) == len(found.runs):
        yield f"ordered by time: {'; '.join(why)}"
    elif unknown:
        runs = tables.how_many(len(unknown), "run")
        yield f"ordered by commit, except {runs} by time: {'; '.join(why)}"


def _print_values(found: _History, metric: str) -> None:
    measured = replace(found, runs=[run for run in found.runs if metric in run.metrics])
    if not measured.runs:
        tables.say(f"has not measured {metric}")
        return
    heads = tables.columns(
        "STARTED (UTC)", "SESSION", "VERDICT", "COMMIT", f">{metric}", ">CHANGE", *_kind_titles(found)
    )
    rows = []
    before: dict[Any, float] = {}
    for run in measured.runs:
        value = _figure(run, metric)
        started, session, verdict, _, commit = _of_run(run)
        change = _change(before.get(_kind(run)), value)
        shown = tables.measured(metric, run.metrics[metric])
        rows.append((started, session, verdict, commit, shown, change, *_kind_cells(found, run)))
        if value is not None and not run.disturbed:
            before[_kind(run)] = value
    tables.print_table(heads, rows)
    figures = _figures(metric, measured.alike)
    if figures:
        median = tables.measured(metric, statistics.median(figures))
        tables.say(f"\n{metric}  {tables.sparkline(figures[-_LETTERS:])}  median {median}")
    if (judgement := found.judged.get(metric)) is not None:
        reason = "; ".join(filter(None, [judgement.reason, judgement.decides, judgements.sight(judgement)]))
        tables.say(f"newest runs: {judgement.says}{f' ({reason})' if reason else ''}")


def _warnings(found: _History) -> Iterator[str]:
    """Yield a warning if not all runs are comparable."""
    machines, series = ({kind[place] for kind in found.kinds} for place in (0, 1))
    if len(machines) > 1 or len(series) > 1:
        kinds = f"{tables.how_many(len(machines), 'machine')} and {tables.how_many(len(series), 'series', 'series')}"
        alike = f"the {tables.how_many(len(found.alike), 'run')} that can be compared with the newest"
        yield f"these runs are from {kinds}; changes and medians are of {alike}"
    if not found.alike and found.has_history:
        yield (
            "all runs here that can be compared with the newest were disturbed, so they are no history: measure again"
            " on a quieter machine, or let disturbed runs count with --bench-disturbed count"
        )


def _kind_titles(found: _History) -> list[str]:
    machines, series = ({kind[place] for kind in found.kinds} for place in (0, 1))
    several = [*(["MACHINE"] if len(machines) > 1 else []), *(["SERIES"] if len(series) > 1 else [])]
    return [*several, *(["NOTE"] if found.has_notes else [])]


def _kind_cells(found: _History, run: PastRun) -> list[str]:
    series, note = (run.series_hash or "")[:8], found.note(run)
    cells = {"MACHINE": run.machine_id or "", "SERIES": series, "NOTE": note}
    return [cells[title] for title in _kind_titles(found)]


def _of_run(run: PastRun) -> tuple[str, str, str, str, str]:
    duration = tables.seconds(run.measured_s)
    return tables.time(run.start), run.session, run.verdict, duration, tables.commit(run.commit)


def _of_metric(name: str, runs: Sequence[PastRun]) -> tuple[str, ...]:
    count = sum(name in run.metrics for run in runs)
    latest = next((run.metrics[name] for run in reversed(runs) if name in run.metrics), None)
    figures = _figures(name, runs)
    if not figures:
        return name, f"{count}", tables.measured(name, latest), "", "", "", ""
    numbers = (latest, statistics.median(figures), min(figures), max(figures))
    shown = [tables.measured(name, number) for number in numbers]
    return name, f"{count}", *shown, tables.sparkline(figures[-_LETTERS:])


def _says(judgement: Judgement | None) -> tuple[str, str]:
    """Return the smallest visible change and the verdict of the newest runs; empty if not judged."""
    return ("", "") if judgement is None else (judgements.visible(judgement), judgement.says)


def _figures(metric: str, runs: Sequence[PastRun]) -> list[float]:
    return [value for run in runs if (value := _figure(run, metric)) is not None]


def _figure(run: PastRun, metric: str) -> float | None:
    """Return the metric if it is a finite number, else None."""
    value = run.metrics.get(metric)
    if isinstance(value, bool | str) or value is None or not abs(value) < float("inf"):
        return None
    return float(value)


def _change(before: float | None, now: float | None) -> str:
    return tables.change((now - before) / abs(before)) if before and now is not None else ""


def _kind(run: PastRun) -> tuple[str | None, str | None]:
    return run.machine_id, run.series_hash


def _print_csv(found: Sequence[_History]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*_CSV, "metric", "value"])
    for run in (run for one in found for run in one.runs):
        start = run.start.isoformat()
        same = [run.entry.name, run.entry.path, run.session, start, run.verdict, run.attempt, run.commit]
        for name, value in run.metrics.items():
            shown = str(value).lower() if isinstance(value, bool) else value
            writer.writerow(csv_cells([*same, run.machine_id, run.definition_hash, name, shown]))


def _document(found: Sequence[_History]) -> dict[str, Any]:
    entries = [
        {
            "name": one.entry.name,
            "originalname": one.entry.originalname,
            "path": one.entry.path,
            "judgements": {name: judgements.document(judged) for name, judged in one.judged.items()},
            "runs": [{**run_document(run), "metrics": run.metrics} for run in one.runs],
        }
        for one in found
    ]
    return {"schema_version": 1, "entries": entries}


def _print_entries(connection: Connection, last: int, *, hunts: bool, as_json: bool) -> None:
    from curator_bench.store import queries

    known = queries.known_entries(connection, hunts=hunts)
    if as_json:
        newest = [queries.latest_runs(connection, one.key, 1, hunts=hunts)[-1] for one in known]
        entries = [
            {**_key(one.key), "runs": one.runs, "latest": run.start} for one, run in zip(known, newest, strict=True)
        ]
        click.echo(json_text({"schema_version": 1, "entries": entries}), nl=False)
        return
    rows = []
    for one in known:
        runs = queries.latest_runs(connection, one.key, last, hunts=hunts)
        durations = [run.measured_s for run in runs if run.measured_s is not None]
        latest = (tables.time(runs[-1].start), runs[-1].verdict, tables.seconds(runs[-1].measured_s))
        rows.append((one.key.name, one.key.path, f"{one.runs:,}", *latest, tables.sparkline(durations[-_LETTERS:])))
    heads = tables.columns("ENTRY", "FILE", ">RUNS", "LATEST (UTC)", "VERDICT", ">DURATION", "TREND")
    tables.print_table(heads, rows)


def _key(entry: EntryKey) -> dict[str, str]:
    return {"name": entry.name, "originalname": entry.originalname, "path": entry.path}
