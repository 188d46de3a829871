"""`curator-bench compare`: compares two sessions, commits, branches or databases, metric by metric."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from curator_bench.cli import judgements, tables
from curator_bench.cli.databases import db_option, reading
from curator_bench.cli.exit_codes import QuestionCommand
from curator_bench.cli.names import moment_of, sessions_named
from curator_bench.cli.parameters import better_option, min_effect_option, scope_options
from curator_bench.errors import BenchError
from curator_bench.files.codec import json_text
from curator_bench.words import markdown_cell

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from curator_bench.cli.comparison import Compared, Declared, Required, Sides
    from curator_bench.cli.comparison_changes import Changes
    from curator_bench.store.measured import Measure, Measured

_NAMED = 5
_LAST_HEADS = (">change", "95 % interval", ">runs", ">visible", "verdict")
_MARKS = {"regression": "🔴", "improvement": "🟢", "inconclusive": "🟡"}


@click.command("compare", cls=QuestionCommand)
@click.argument("a")
@click.argument("b")
@db_option
@click.option("--metric", help="only this metric")
@better_option
@min_effect_option("changes")
@scope_options
@click.option("--fail", is_flag=True, help="exit with 1 if there is a regression")
@click.option("--markdown", "as_markdown", is_flag=True, help="print a table for a pull request")
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of a table")
def command(
    a: str,
    b: str,
    database: str,
    metric: str | None,
    better: str | None,
    min_effect: float,
    branch: str | None,
    machine: str | None,
    since: datetime | str | None,
    fail: bool,
    as_markdown: bool,
    as_json: bool,
) -> None:
    """Compare the measurements of A with those of B.

    Each is the name or uid of a session, a commit, a branch, a name of git for a commit (HEAD~1, a tag), or a database
    file or URL. The noise of a metric comes from all its runs, or those of a branch or a kind of machine.

    The exit code is 2 if nothing could be compared. With --fail it is 1 if there is a regression.
    """
    from curator_bench.cli.comparison import compare_sides
    from curator_bench.cli.comparison_changes import changes_between

    sides = _sides(a, b, database, metric, _Scope(branch, machine, since))
    rows = compare_sides(sides, better, min_effect)
    left_out = [_only_of(name, found) for name, found in zip((a, b), sides.only_in_one(better), strict=True) if found]
    left_out += [line for named in (a, b) if (line := _disturbed(named, database))]
    if not rows:
        nothing = f"{a} and {b} have no common metric with a known better direction"
        raise BenchError("\n".join([nothing, *left_out]))
    rows.sort(key=lambda row: _place(row, sides))
    changes = changes_between((_database_of(a, database), _database_of(b, database)), rows)
    if as_json:
        click.echo(json_text([_document(row, sides, changes) for row in rows]), nl=False)
    else:
        limit = [judgements.limit_line(min_effect)] if any(row.judgement.word for row in rows) else []
        below = [*judgements.notes([(_name(row), row.judgement) for row in rows]), *limit, *left_out]
        _print(a, b, rows, below, changes, as_markdown=as_markdown)
    if fail and any(row.judgement.says == "regression" for row in rows):
        sys.exit(1)


def _place(row: Compared, sides: Sides) -> tuple[int, bool, Measure, str]:
    """The regressions first, and of each verdict the metrics that requirements name."""
    says, is_required = judgements.place_of(row.judgement.says), sides.is_required(row.measure)
    return says, not is_required, row.measure, row.machine_id or ""


def _only_of(name: str, found: Sequence[str]) -> str:
    more = f", … ({len(found)} in all)" if len(found) > _NAMED else ""
    return f"only {name} measured {', '.join(found[:_NAMED])}{more}"


def _disturbed(named: str, database: str) -> str:
    """Return a line about the disturbed runs of a session, commit or branch; empty if there are none."""
    from curator_bench.store.measured import disturbed_in

    if _is_database(named):
        return ""
    with reading(database) as opened, opened.reading() as connection:
        count = disturbed_in(connection, sessions_named(connection, named))
    what = f"{tables.how_many(count, 'run')} of {named} {'was' if count == 1 else 'were'} disturbed"
    return f"{what}, and so left out (`--bench-disturbed count` lets later ones count)" if count else ""


class _Scope(NamedTuple):
    """The runs that are compared. Those before `since` only show the noise."""

    branch: str | None
    machine: str | None
    since: datetime | str | None

    def sessions(self, connection: Connection, named: str) -> set[int]:
        """Return the sessions of this name that have a run in scope. Raises BenchError if there is none."""
        from curator_bench.store.scope import in_scope, sessions_in

        found = sessions_named(connection, named)
        if not any(self):
            return set(found)
        scope = in_scope(connection, self.branch, self.machine, moment_of(connection, self.since))
        chosen = sessions_in(connection, found, scope)
        if not chosen:
            raise BenchError(f"no run of {named} is of this branch, this machine and this time")
        return chosen


def _sides(a: str, b: str, database: str, metric: str | None, scope: _Scope) -> Sides:
    from curator_bench.cli.comparison import Sides
    from curator_bench.store.measured import of_other_sessions, only

    if _is_database(a) or _is_database(b):
        before, known = _side(a, database, metric, scope)
        after, there = _side(b, database, metric, scope)
        declared, required = {**known.declared, **there.declared}, {**known.required, **there.required}
        return Sides(before, after, known.measured, declared, required, {**known.identities, **there.identities})
    with reading(database) as opened, opened.reading() as connection:
        in_a, in_b = (scope.sessions(connection, named) for named in (a, b))
        known = _known(connection, metric, in_a | in_b, scope)
    if in_a <= in_b:
        raise BenchError(
            f"every session of {a} is also one of {b}: name another session or commit (a branch means all its sessions)"
        )
    before, after = only(known.measured, in_a - in_b), only(known.measured, in_b)
    others = of_other_sessions(known.measured, in_b, in_a)
    return Sides(before, after, others, known.declared, known.required, known.identities)


def _side(named: str, database: str, metric: str | None, scope: _Scope) -> tuple[Measured, _Known]:
    """Return the measurements of one side, and what is known of all of its database."""
    from curator_bench.store.measured import only

    with reading(_database_of(named, database)) as opened, opened.reading() as connection:
        if _is_database(named):
            known = _known(connection, metric, set(), scope, since=moment_of(connection, scope.since))
            return known.measured, known
        chosen = scope.sessions(connection, named)
        known = _known(connection, metric, chosen, scope)
        return only(known.measured, chosen), known


class _Known(NamedTuple):
    """The measurements of the history and of the chosen sessions, and what requirements declare and name."""

    measured: Measured
    declared: Declared
    required: Required
    identities: Mapping[str, Mapping[str, str]]
    """Arguments, datasets and the like of each series, for messages."""


def _known(
    connection: Connection, metric: str | None, chosen: set[int], scope: _Scope, since: datetime | None = None
) -> _Known:
    from curator_bench.store.all_series import declared_directions, required_metrics
    from curator_bench.store.measured import measured, without_history
    from curator_bench.store.scope import in_scope
    from curator_bench.store.series import identities

    also = without_history(connection, chosen)
    found = measured(connection, metric, also, in_scope(connection, scope.branch, scope.machine, since))
    declared, required = declared_directions(connection, also), required_metrics(connection, also)
    series = {kind.series_hash for kinds in found.values() for kind in kinds}
    return _Known(found, declared, required, identities(connection, series))


def _is_database(named: str) -> bool:
    return "://" in named or Path(named).is_file()


def _database_of(named: str, database: str) -> str:
    return named if _is_database(named) else database


def _name(row: Compared) -> str:
    on = f" on {row.machine_id}" if row.machine_id else ""
    return f"{row.measure.name} {row.measure.metric}{on}"


def _print(
    a: str, b: str, rows: Sequence[Compared], below: Sequence[str], changes: Changes, *, as_markdown: bool
) -> None:
    from curator_bench.cli import comparison_changes

    machine = ["machine"] if any(row.machine_id for row in rows) else []
    first = ["entry", "metric", *machine]
    cells = [_cells(row, has_machine=bool(machine)) for row in rows]
    if as_markdown:
        lines = _markdown([*first, f">{a}", f">{b}", *_LAST_HEADS], cells)
        notes = (f"\n{markdown_cell(line)}" for line in below)
        tables.say("\n".join([*lines, *comparison_changes.markdown(changes), *notes]))
        return
    heads = [*map(str.upper, first), f">{a}", f">{b}", *map(str.upper, _LAST_HEADS)]
    tables.print_table(tables.columns(*heads), cells)
    for line in (*comparison_changes.text(changes), *map(tables.printable, below)):
        tables.say(line)


def _cells(row: Compared, *, has_machine: bool) -> tuple[str, ...]:
    one = row.judgement
    return (
        row.measure.name,
        row.measure.metric,
        *([row.machine_id or ""] if has_machine else []),
        _number(row.measure.metric, one.before),
        _number(row.measure.metric, one.after),
        tables.change(one.change),
        tables.interval(one.interval) if one.interval else "",
        f"{row.runs[0]}, {row.runs[1]}",
        judgements.visible(one),
        one.says,
    )


def _number(metric: str, value: float | None) -> str:
    return tables.NOTHING if value is None or value != value else tables.measured(metric, value)


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    counts = {word: sum(row[-1] == word for row in rows) for word in _MARKS}
    totals = ", ".join(tables.how_many(counts[word], word) for word in ("regression", "improvement"))
    unclear = f", {counts['inconclusive']} inconclusive" if counts["inconclusive"] else ""
    lines = [f"**{totals}{unclear}** in {tables.how_many(len(rows), 'metric')}", ""]
    lines.append(_line([head.removeprefix(">") for head in heads]))
    lines.append(f"|{'|'.join('--:' if head.startswith('>') else '---' for head in heads)}|")
    return [*lines, *(_line((*cells, _marked(says))) for *cells, says in rows)]


def _marked(says: str) -> str:
    return f"{_MARKS[says]} {says}" if says in _MARKS else says


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(markdown_cell, cells))} |"


def _document(row: Compared, sides: Sides, changes: Changes) -> dict[str, Any]:
    from curator_bench.causes import wording

    changed = changes.get(row.group) if row.judgement.says == "regression" else None
    return {
        "entry": row.measure.name,
        "path": row.measure.path,
        "machine": row.machine_id,
        "metric": row.measure.metric,
        "required": sides.is_required(row.measure),
        "runs": list(row.runs),
        **judgements.document(row.judgement),
        "changed": changed and wording.document(changed),
    }
