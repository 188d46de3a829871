"""`curator-bench regressions`: shows steps and drift of every metric, their commits, and blind metrics."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from curator_bench.causes.finding_names import series_name
from curator_bench.cli import judgements, tables
from curator_bench.cli.databases import db_option, reading
from curator_bench.cli.exit_codes import QuestionCommand
from curator_bench.cli.finding_blocks import print_finding
from curator_bench.cli.names import moment_of
from curator_bench.cli.parameters import Share, better_option, min_effect_option, repo_option, scope_options
from curator_bench.files.codec import json_text

if TYPE_CHECKING:
    from curator_bench.causes.findings import RecordedFinding
    from curator_bench.causes.judged_history import JudgedHistory, JudgedSeries, RecordedDrift
    from curator_bench.causes.left_out import LeftOut

_NAMED = 5


@click.command("regressions", cls=QuestionCommand)
@db_option
@click.option("--metric", help="only this metric")
@scope_options
@better_option
@min_effect_option("changes")
@click.option(
    "--must-see", type=Share(), default="10%", show_default=True, help="metrics that would miss this change are blind"
)
@click.option("--all", "everything", is_flag=True, help="also accepted changes, and all blind metrics")
@repo_option
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of tables")
@click.option("--drift", "with_drift", is_flag=True, help="add drift to the JSON (tables always show it)")
def command(
    database: str,
    metric: str | None,
    branch: str | None,
    machine: str | None,
    since: datetime | str | None,
    better: str | None,
    min_effect: float,
    must_see: float,
    everything: bool,
    repo: Path | None,
    as_json: bool,
    with_drift: bool,
) -> None:
    """Print regressions, improvements and drift of all metrics by machine, and the metrics that are blind.

    The exit code is 1 when a regression is open, and 2 if that cannot be determined. A regression is open until later
    runs are as good as before, or `curator-bench accept` closes it. Drift does not change the exit code; the gate
    `max_drift` fails for it.
    """
    from curator_bench.causes.finding_changes import changes_of
    from curator_bench.causes.judged_history import Query, judge_history
    from curator_bench.cli.finding_documents import drift_document, step_documents
    from curator_bench.cli.machine_hints import machine_hints
    from curator_bench.verdict.step_states import State

    with reading(database) as opened, opened.reading() as connection:
        moment = moment_of(connection, since)
        query = Query(metric, moment, better, min_effect, branch, must_see, repo, machine)
        found = judge_history(connection, query)
        shown = [one for one in found.findings if everything or one.state is not State.ACCEPTED]
        changes = changes_of(connection, shown)
        hints = [] if as_json else list(machine_hints(connection, found.series))
    if as_json:
        steps = [one for one in found.steps if everything or one.state is not State.ACCEPTED]
        drifts = found.drifts if with_drift else ()
        documents = [*step_documents(steps, found.findings, changes, repo), *map(drift_document, drifts)]
        click.echo(json_text(documents), nl=False)
    else:
        for finding in shown:
            print_finding(finding, changes[finding.name], repo, everything=everything)
            tables.say("")
        _print(found, shown, named=None if everything else _NAMED)
        for hint in hints:
            tables.say(hint)
    if any(one.state is State.OPEN for one in shown):
        sys.exit(1)


def _print(found: JudgedHistory, shown: Sequence[RecordedFinding], *, named: int | None) -> None:
    for drift in found.drifts:
        tables.say(tables.printable(_drift_line(drift)))
    tables.say(f"{_counts(found, shown)} in {tables.how_many(len(found.series), 'series', 'series')}.")
    in_doubt = sorted((one for one in found.series if one.newest.decides), key=lambda one: one.newest.p_value)
    for line in judgements.notes([(_name(one), one.newest) for one in in_doubt]):
        tables.say(line)
    for line in _blind(found.series, named):
        tables.say(line)
    if found.ended:
        ended = [f"{one.entry.name} {one.metric} ({tables.how_many(one.runs_without, 'run')})" for one in found.ended]
        tables.say(f"Not comparable, because the newest runs measured no number: {_first_of(ended)}")
    for line in _left_out([*found.left_out, *found.disturbed], named):
        tables.say(line)
    if found.without_direction:
        names = sorted(found.without_direction)
        tables.say(
            f"Not judged, because it is not known whether less or more is better (declare `better`): {_first_of(names)}"
        )


def _counts(found: JudgedHistory, shown: Sequence[RecordedFinding]) -> str:
    words = [str(one.word) for one in shown]
    counts = {word: words.count(word) for word in ("regression", "improvement")} | {"drift": len(found.drifts)}
    parts = [tables.how_many(count, word) for word, count in counts.items()]
    young = sum(one.newest.says == "no history" for one in found.series)
    return ", ".join([*parts, *([f"{young} with no history"] if young else [])])


def _name(one: JudgedSeries) -> str:
    return series_name(one.series.entry.name, one.series.metric, one.series.machine_id)


def _drift_line(one: RecordedDrift) -> str:
    drift = one.drift
    levels = f"{tables.measured(one.metric, drift.before)} to {tables.measured(one.metric, drift.after)}"
    crept = f"has crept by {tables.change(drift.change)} since {one.since_text}"
    name = series_name(one.entry.name, one.metric, one.machine_id)
    return f"drift: {name} {crept} ({levels}, 95 % interval {tables.interval(drift.interval)})"


def _blind(series: Sequence[JudgedSeries], named: int | None) -> Iterator[str]:
    """Yield the metrics that would miss a change of their limit, those with a gate and the least sensitive first."""
    found = sorted(
        (one for one in series if one.is_blind), key=lambda one: (not one.is_gated, -(one.newest.visible or 0))
    )
    if not found:
        return
    yield f"Blind: {tables.how_many(len(found), 'metric')} would miss a change that matters."
    for one in found[:named]:
        wanted = "the limit of its gate is" if one.is_gated else "--must-see is"
        yield f"    {tables.printable(_name(one))}: {judgements.sight(one.newest)}; {wanted} {tables.share(one.limit)}"
    if named is not None and len(found) > named:
        yield f"    … and {len(found) - named} more (--all)"


def _left_out(found: Sequence[LeftOut], named: int | None) -> Iterator[str]:
    """Yield the runs that are not judged, and why."""
    if found:
        runs = tables.how_many(sum(one.runs for one in found), "run")
        yield f"Left out: {runs}."
    for one in found[:named]:
        yield f"    {tables.printable(one.text)}"
    if named is not None and len(found) > named:
        yield f"    … and {len(found) - named} more (--all)"


def _first_of(names: Sequence[str]) -> str:
    return ", ".join([*names[:_NAMED], *(["…"] if len(names) > _NAMED else [])])
