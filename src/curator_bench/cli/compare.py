"""`curator-bench compare`: two sessions, commits, branches or databases, metric by metric."""

from __future__ import annotations

import dataclasses
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from curator_bench.cli import tables
from curator_bench.cli.databases import db_option, reading
from curator_bench.cli.exit_codes import QuestionCommand
from curator_bench.cli.parameters import min_effect_option
from curator_bench.errors import BenchError
from curator_bench.words import markdown_cell

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from curator_bench.store.measured import Kind, Measure, Measured
    from curator_bench.verdict.comparison import Compared
    from curator_bench.verdict.direction import Better

Declared: TypeAlias = Mapping[tuple[str, str, str], str]
"""By name, path and metric what requirements say is better."""
_ORDER = ("regression", "improvement")
_NAMED = 5
_MARKS = {"regression": "🔴 regression", "improvement": "🟢 improvement"}


@dataclass(frozen=True, slots=True)
class _Sides:
    """What A and B measured, all that is known beside B, and the directions that were declared."""

    before: Measured
    after: Measured
    history: Measured
    declared: Declared

    def direction(self, measure: Measure, better: str | None) -> Better | None:
        from curator_bench.verdict.direction import better_of

        return better_of(measure.metric, self.declared.get(measure), better)

    def only_in_one(self, better: str | None) -> tuple[list[Measure], list[Measure]]:
        """What only A measured, and what only B measured, of all that has a direction."""
        keys = self.before.keys(), self.after.keys()
        alone = (keys[0] - keys[1], keys[1] - keys[0])
        first, second = (sorted(one for one in found if self.direction(one, better)) for found in alone)
        return first, second


@dataclass(frozen=True, slots=True)
class _Row:
    measure: Measure
    runs: tuple[int, int]
    compared: Compared


@click.command("compare", cls=QuestionCommand)
@click.argument("a")
@click.argument("b")
@db_option
@click.option("--metric", help="this metric only")
@click.option("--better", type=click.Choice(["less", "more"]), help="of metrics that tell no direction by their name")
@min_effect_option("changes")
@click.option("--fail", is_flag=True, help="exit code 1 when there is a regression")
@click.option("--markdown", "as_markdown", is_flag=True, help="print a table for a pull request")
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of a table")
def command(
    a: str,
    b: str,
    database: str,
    metric: str | None,
    better: str | None,
    min_effect: float,
    fail: bool,
    as_markdown: bool,
    as_json: bool,
) -> None:
    """Compare what was measured in A with what was measured in B: names or uids of sessions, commits, branches, or
    database files and URLs. How much a metric scatters is learnt from all its runs.

    The exit code is 1 with --fail when there is a regression, and 2 for what could not be compared."""
    sides = _sides(a, b, database, metric)
    rows = _compared(sides, better, min_effect)
    left_out = [_only_of(name, found) for name, found in zip((a, b), sides.only_in_one(better), strict=True) if found]
    if not rows:
        nothing = f"{a} and {b} have no metric in common that tells which direction is good"
        raise BenchError("\n".join([nothing, *left_out]))
    rows.sort(key=lambda row: (_place(row.compared.verdict), row.measure))
    if as_json:
        click.echo(tables.as_json([_document(row) for row in rows]))
    elif as_markdown:
        tables.say("\n".join([*_markdown(a, b, rows), *(f"\n{markdown_cell(line)}" for line in left_out)]))
    else:
        heads = tables.columns("ENTRY", "METRIC", f">{a}", f">{b}", ">CHANGE", "95 % INTERVAL", ">RUNS", "VERDICT")
        tables.print_table(heads, [_cells(row) for row in rows])
        for line in left_out:
            tables.say(line)
    if fail and any(row.compared.verdict == "regression" for row in rows):
        sys.exit(1)


def _only_of(name: str, found: Sequence[Measure]) -> str:
    more = f", … ({len(found)} in all)" if len(found) > _NAMED else ""
    return f"only {name} measured {', '.join(f'{one.name} {one.metric}' for one in found[:_NAMED])}{more}"


def _sides(a: str, b: str, database: str, metric: str | None) -> _Sides:
    from curator_bench.store.measured import sessions_meant

    if _is_database(a) or _is_database(b):
        before, history, declared = _side(a, database, metric)
        after, _, declared_there = _side(b, database, metric)
        return _Sides(before, after, history, {**declared, **declared_there})
    with reading(database) as opened, opened.reading() as connection:
        everything, declared = _known(connection, metric)
        in_a, in_b = (set(sessions_meant(connection, named)) for named in (a, b))
    if in_a <= in_b:
        raise BenchError(f"every session of {a} is one of {b}, too: there is nothing to compare")
    history = _only(everything, None, without=in_b)
    return _Sides(_only(everything, in_a - in_b), _only(everything, in_b), history, declared)


def _side(named: str, database: str, metric: str | None) -> tuple[Measured, Measured, Declared]:
    """What one side measured, and all that its database knows."""
    from curator_bench.store.measured import sessions_meant

    with reading(named if _is_database(named) else database) as opened, opened.reading() as connection:
        everything, declared = _known(connection, metric)
        if _is_database(named):
            return everything, everything, declared
        return _only(everything, set(sessions_meant(connection, named))), everything, declared


def _known(connection: Connection, metric: str | None) -> tuple[Measured, Declared]:
    from curator_bench.store.all_series import declared_directions
    from curator_bench.store.measured import measured

    return measured(connection, metric), declared_directions(connection)


def _is_database(named: str) -> bool:
    return "://" in named or Path(named).is_file()


def _only(everything: Measured, sessions: Set[int] | None, without: Set[int] = frozenset()) -> Measured:
    found: Measured = defaultdict(lambda: defaultdict(list))
    for measure, kinds in everything.items():
        for kind, values in kinds.items():
            kept = [one for one in values if (sessions is None or one[0] in sessions) and one[0] not in without]
            if kept:
                found[measure][kind] = kept
    return found


def _compared(sides: _Sides, better: str | None, min_effect: float) -> list[_Row]:
    from curator_bench.verdict.cases import Rules
    from curator_bench.verdict.comparison import Compared, compare, pair_of

    before, after = sides.before, sides.after
    nan = float("nan")
    pairs, measures, strange = [], [], []
    for measure in before.keys() & after.keys():
        rules = Rules(sides.direction(measure, better), min_effect)
        if rules.better is None:
            continue
        kinds = [kind for kind in after[measure] if kind in before[measure]]
        if not kinds:
            strange.append(_Row(measure, (0, 0), Compared(_why_not(measure, before, after), nan, nan, nan)))
            continue
        kind = max(kinds, key=lambda kind: len(after[measure][kind]))
        a, b, known = ([value for _, value in side[measure][kind]] for side in (before, after, sides.history))
        pairs.append(pair_of(a, b, known, rules))
        measures.append(measure)
    found = [
        _Row(measure, (len(pair.before), len(pair.after)), compared)
        for measure, pair, compared in zip(measures, pairs, compare(pairs), strict=True)
    ]
    return [*found, *strange]


def _why_not(measure: Measure, before: Measured, after: Measured) -> str:
    from curator_bench.verdict.comparable import Origin, difference

    def origin(kind: Kind) -> Origin:
        return Origin(measure.name, kind.definition_hash, kind.machine_id)

    one, other = next(iter(after[measure])), next(iter(before[measure]))
    return f"not comparable because {difference(origin(one), origin(other))}"


def _place(verdict: str) -> int:
    return _ORDER.index(verdict) if verdict in _ORDER else len(_ORDER)


def _cells(row: _Row) -> tuple[str, ...]:
    one = row.compared
    interval = tables.interval(one.interval) if one.interval else ""
    return (
        row.measure.name,
        row.measure.metric,
        _number(one.before),
        _number(one.after),
        tables.change(one.change),
        interval,
        f"{row.runs[0]}, {row.runs[1]}",
        one.verdict,
    )


def _number(value: float) -> str:
    return tables.NOTHING if value != value else tables.number(value)


def _markdown(a: str, b: str, rows: Sequence[_Row]) -> list[str]:
    counts = {verdict: sum(row.compared.verdict == verdict for row in rows) for verdict in _ORDER}
    told = ", ".join(tables.how_many(count, verdict) for verdict, count in counts.items())
    heads = ("entry", "metric", a, b, "change", "95 % interval", "runs", "verdict")
    lines = [f"**{told}** in {tables.how_many(len(rows), 'metric')}", "", _line(heads)]
    lines.append("|---|---|--:|--:|--:|---|--:|---|")
    for row in rows:
        *cells, verdict = _cells(row)
        lines.append(_line((*cells, _MARKS.get(verdict, verdict))))
    return lines


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(markdown_cell, cells))} |"


def _document(row: _Row) -> dict[str, Any]:
    return {
        "entry": row.measure.name,
        "path": row.measure.path,
        "metric": row.measure.metric,
        "runs": list(row.runs),
        **dataclasses.asdict(row.compared),
    }
