"""`curator-bench why`: splits the difference of two sides of an entry over stages and functions of its runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from curator_bench.cli import tables
from curator_bench.cli.databases import db_option, reading
from curator_bench.cli.end_profiles import print_difference
from curator_bench.cli.names import moment_of, sessions_named
from curator_bench.cli.parameters import Moment, branch_option, machine_option, min_effect_option, repo_option
from curator_bench.errors import BenchError
from curator_bench.files.codec import json_text

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from curator_bench.causes.commands import Command, Question
    from curator_bench.causes.judged_history import Query
    from curator_bench.causes.profiled import Profiled
    from curator_bench.causes.sides import Sides
    from curator_bench.causes.what_changed import WhatChanged
    from curator_bench.causes.why import Why
    from curator_bench.store.queries import EntryKey, PastRun

_FINDING = re.compile("[ri]-[0-9a-f]{6}")
_METRIC, _BOTH = 2, 4
"""How many words name an entry with its metric, and with its metric and both sides."""


@click.command("why")
@click.argument("words", metavar="ENTRY|FINDING [METRIC] [A B]", nargs=-1, required=True)
@db_option
@click.option(
    "--since", type=Moment(), metavar="SESSION|COMMIT|DAY", help="compare the runs since then with those before"
)
@branch_option
@machine_option
@min_effect_option("changes of a stage or a function")
@repo_option
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of a table")
def command(
    words: tuple[str, ...],
    database: str,
    since: datetime | str | None,
    branch: str | None,
    machine: str | None,
    min_effect: float,
    repo: Path | None,
    as_json: bool,
) -> None:
    """Explain by its stages and functions why ENTRY became slower or faster, and print what else changed.

    The sides are those of its newest open regression, or of FINDING (`curator-bench regressions` names them), or A and
    B: names or uids of sessions, commits or branches. METRIC is a time in seconds that its stages make up; by default,
    that of the regression or of the script. Functions are named if runs of both sides have profiles.
    """
    from curator_bench.causes.commands import worded
    from curator_bench.causes.profiled import by_functions, by_functions_of_hunts
    from curator_bench.causes.why import changed_between, question_of

    if len(words) > _BOTH:
        raise click.UsageError(f"found {len(words)} names, expected ENTRY [METRIC] [A B]")
    if since is not None and len(words) > _METRIC:
        raise click.UsageError("name either A and B or --since")
    with reading(database) as opened, opened.reading() as connection:
        sides, metric, title = _sides(connection, words, since, branch, machine)
        profiled = by_functions(connection, sides, limit=min_effect)
        changed = changed_between(connection, sides)
        if not profiled.differences:
            hunted = by_functions_of_hunts(connection, sides.entry, changed, repo, limit=min_effect)
            profiled = hunted or profiled
        found = _by_stages(connection, sides, metric, min_effect, profiled)
    offered = _commands(changed, question_of(sides, metric, found), profiled, repo)
    if as_json:
        click.echo(json_text(_document(sides, found, profiled, changed, metric, title, offered)), nl=False)
    else:
        tables.say(tables.printable(title))
        if found is not None:
            _print_stages(found, metric)
        _print_functions(profiled)
        _print_changed(changed, repo)
        for line in worded(offered):
            tables.say(line)


def _by_stages(
    connection: Connection, sides: Sides, metric: str | None, limit: float, profiled: Profiled
) -> Why | None:
    """Explain the sides by their stages; None if these were not recorded, but functions are known."""
    from curator_bench.causes.why import why

    try:
        return why(connection, sides, metric, limit=limit)
    except BenchError:
        if not profiled.differences:
            raise
        return None


def _sides(
    connection: Connection,
    words: Sequence[str],
    since: datetime | str | None,
    branch: str | None,
    machine: str | None,
) -> tuple[Sides, str | None, str]:
    """Return the sides, the metric that was asked for, and a title that names both sides."""
    from curator_bench.causes import sides
    from curator_bench.causes.judged_history import Query
    from curator_bench.store.scope import in_scope

    if len(words) <= _METRIC and since is None:
        return _of_finding(connection, words, Query(branch=branch, machine=machine))
    scope = in_scope(connection, branch, machine)
    metric = words[1] if len(words) in (_METRIC, _BOTH) else None
    entry = _entry(connection, words[0], metric)
    if since is not None:
        moment = moment_of(connection, since)
        assert moment is not None
        found = sides.sides_since(connection, entry, moment, str(since), scope)
        title = f"since {since}"
    else:
        names = (words[-2], words[-1])
        meant = sessions_named(connection, names[0]), sessions_named(connection, names[1])
        found = sides.sides_of_sessions(connection, entry, names, meant, scope)
        title = f"{names[0]} → {names[1]}"
    return found, metric, title


def _entry(connection: Connection, named: str, metric: str | None) -> EntryKey:
    from curator_bench.store import queries

    entries = queries.find_entries_of_any_run(connection, named)
    if len(entries) > 1:
        some = ", ".join(one.name for one in entries[:5])
        raise BenchError(f"{named} names {len(entries)} entries; name one of them: {some}")
    names = sorted({name for hunts in (False, True) for name in queries.metric_names(connection, entries, hunts=hunts)})
    if metric is not None and metric not in names:
        raise BenchError(f"{named} has no metric {metric!r}{queries.nearest(metric, names)}")
    return entries[0]


def _of_finding(connection: Connection, words: Sequence[str], query: Query) -> tuple[Sides, str | None, str]:
    """Return the sides of the finding that is named, or of the newest open regression of the entry."""
    from curator_bench.causes.findings import finding_named
    from curator_bench.causes.judged_history import judge_history
    from curator_bench.causes.sides import sides_of_judged
    from curator_bench.store import queries
    from curator_bench.store.all_series import groups_of
    from curator_bench.verdict.step_states import State

    names = [word for word in words if _FINDING.fullmatch(word)]
    others = [word for word in words if word not in names]
    entry = others[0] if others else None
    metric = others[1] if len(others) > 1 else None
    entries = queries.find_entries(connection, entry) if entry else []
    if metric is not None:
        known = queries.metric_names(connection, entries)
        if metric not in known:
            raise BenchError(f"{entry} has no metric {metric!r}{queries.nearest(metric, known)}")
    among = groups_of(connection, entries) if entries and not names else None
    judged = judge_history(connection, query, among)
    steps = finding_named(judged.findings, names[0]).steps if names else judged.steps
    steps = [one for one in steps if names or one.state is State.OPEN]
    steps = [one for one in steps if not entries or one.entry in entries]
    steps = [one for one in steps if metric is None or one.metric == metric]
    if not steps:
        raise BenchError(_nothing(entry, metric, names))
    # The newest cause; of its metrics a time that requirements name, else the first time, else the largest change.
    newest = steps if names else [one for one in steps if one.first.start == max(each.first.start for each in steps)]
    step = min(newest, key=lambda one: (not _is_time(one.metric), not one.is_required, -abs(one.step.change)))
    since = f"{step.entry.name} {step.metric} {tables.change(step.step.change)} since {step.first.session}"
    named = next((one.name for one in judged.findings if step in one.steps), "")
    return sides_of_judged(connection, judged, step), metric or step.metric, f"{named}: {since}"


def _is_time(metric: str) -> bool:
    from curator_bench.causes.why import is_time

    return is_time(metric)


def _nothing(entry: str | None, metric: str | None, names: Sequence[str]) -> str:
    of = " ".join(filter(None, [entry, metric]))
    if names:
        return f"{names[0]} explains nothing of {of}"
    sides = "name two sides: `curator-bench why ENTRY A B`, or `--since SESSION`"
    return f"no regression of {of} is open; {sides}"


def _print_stages(found: Why, metric: str | None) -> None:
    from curator_bench.causes import stage_wording

    explained = found.explanation
    for line in _head(found, metric):
        tables.say(tables.printable(line))
    for line in stage_wording.conclusion(explained):
        tables.say(f"  {line}")
    tables.say("")
    tables.print_table(tables.columns(*stage_wording.HEADS), stage_wording.rows(explained))
    if shape := stage_wording.shape(explained):
        tables.say(shape)
    if lines := list(stage_wording.consequences(explained)):
        tables.say("consequences, which are no causes:")
    for line in lines:
        tables.say(f"    {line}")


def _print_functions(profiled: Profiled) -> None:
    if profiled.sessions is not None:
        tables.say(tables.printable(f"profiled at two commits, in {' and '.join(profiled.sessions)}:"))
    for found in profiled.differences:
        print_difference(found)
    if profiled.hint:
        tables.say(tables.printable(profiled.hint))


def _print_changed(changed: WhatChanged, repo: Path | None) -> None:
    from curator_bench.causes import wording
    from curator_bench.cli.finding_changes import commit_log

    tables.say("what else changed:")
    for line in wording.text(changed, commit_log(repo)):
        tables.say(f"    {line}")


def _commands(changed: WhatChanged, question: Question | None, profiled: Profiled, repo: Path | None) -> list[Command]:
    """Return the commands that would tell more: not one for the function if that is known."""
    from curator_bench.causes.commands import WHICH_FUNCTION, commands
    from curator_bench.cli.finding_changes import commit_log

    found = commands(changed, question, commit_log(repo)) if question else ()
    is_known = any(one.is_explained for one in profiled.differences)
    return [one for one in found if not (is_known and one.tells == WHICH_FUNCTION)]


def _head(found: Why, metric: str | None) -> list[str]:
    from curator_bench.causes import stage_wording

    wall, judged = found.explanation.wall, found.explanation.change
    times = f"{tables.seconds(wall.before)} → {tables.seconds(wall.after)}"
    counts = " and ".join(tables.how_many(count, "run") for count in found.explanation.runs)
    interval = stage_wording.interval(judged)
    within = f", 99 % interval {interval}" if interval else ""
    lines = [f"{found.metric} {times} ({tables.change(judged.change)}{within}): {judged.word}, from {counts}"]
    if metric is not None and metric != found.metric:
        lines.append(f"{metric} is no time in seconds; {found.metric} is what stages make up")
    if any(found.without):
        lines.append(f"left out: {tables.how_many(sum(found.without), 'run')} without stages")
    return lines


def _document(
    sides: Sides,
    found: Why | None,
    profiled: Profiled,
    changed: WhatChanged,
    metric: str | None,
    title: str,
    offered: Sequence[Command],
) -> dict[str, Any]:
    from curator_bench.causes import commands, profile_wording, stage_wording, wording

    time = found.metric if found is not None else None
    return {
        "schema_version": 1,
        "title": title,
        "entry": sides.entry.name,
        "path": sides.entry.path,
        "machine": sides.after[0].machine_id,
        "metric": metric or time,
        "time": time,
        "before": _side(sides.before),
        "after": _side(sides.after),
        **(stage_wording.document(found.explanation) if found is not None else {}),
        "profiled_runs": list(profiled.runs),
        "profiled_sessions": None if profiled.sessions is None else list(profiled.sessions),
        "functions": [profile_wording.document(one) for one in profiled.differences],
        "changed": wording.document(changed),
        "commands": commands.document(offered),
    }


def _side(runs: Sequence[PastRun]) -> list[dict[str, Any]]:
    return [{"uid": run.uid, "session": run.session, "commit": run.commit, "start": run.start} for run in runs]
