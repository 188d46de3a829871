"""`curator-bench ab`: compare environments: interpreters, packages, variables, matrices."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from curator_bench.cli import judgements, tables
from curator_bench.cli.after_dashes import WithPytestArgs
from curator_bench.cli.databases import absolute, db_option
from curator_bench.cli.exit_codes import TROUBLE, QuestionCommand
from curator_bench.cli.parameters import min_effect_option
from curator_bench.errors import BenchError
from curator_bench.files.codec import json_text

if TYPE_CHECKING:
    from curator_bench.hunting.alternation import Answer, Comparison, Series
    from curator_bench.hunting.environments import Environment
    from curator_bench.verdict.judgement import Judgement

_FEWEST = 3


class _Command(QuestionCommand, WithPytestArgs):
    """A command that answers a question by its exit code, and passes arguments to pytest."""


@click.command("ab", cls=_Command)
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="A.yaml B.yaml …")
@click.option("--repeat", type=click.IntRange(_FEWEST), default=5, show_default=True, help="rounds of each environment")
@click.option(
    "--metric", "metrics", multiple=True, help="this metric (repeatable); default: all with a known direction"
)
@click.option("--better", type=click.Choice(["less", "more"]), help="if the name of --metric does not tell")
@min_effect_option("changes")
@click.option("--fail", is_flag=True, help="exit with 1 if there is a regression against A")
@click.option("--fresh", is_flag=True, help="start again instead of continuing an interrupted comparison")
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of a table")
@db_option
def command(
    files: tuple[Path, ...],
    repeat: int,
    metrics: tuple[str, ...],
    better: str | None,
    min_effect: float,
    fail: bool,
    fresh: bool,
    as_json: bool,
    database: str,
    pytest_args: tuple[str, ...],
) -> None:
    """Run the same benchmarks in environments A, B, … in turns, and show how each differs from A.

    The keys of a file are `python` (an interpreter), `requirements` (a file or a list, installed into a new venv),
    `env` and `matrix` (overlays). A is measured twice as often as the others, and compared with itself. Arguments after
    -- are for pytest. All measurements are in the database, so the same command continues after an interruption.

    The exit code is 2 if nothing could be compared. With --fail it is 1 if there is a regression, and 2 if another
    environment lacks a metric of A.
    """
    from curator_bench.hunting.alternation import Comparison
    from curator_bench.hunting.children import Stopped, scratch_folder, stoppable
    from curator_bench.hunting.environments import read, ready

    if len(files) < 2:
        raise click.UsageError("name two environments or more: curator-bench ab A.yaml B.yaml -- benchmarks")
    wanted = [read(file) for file in files]
    _refuse_namesakes(wanted)
    comparison = _begun(Comparison(wanted, "", absolute(database), pytest_args, metrics), repeat, fresh=fresh)
    try:
        with stoppable(), scratch_folder() as folder:
            comparison = replace(comparison, environments=[ready(one, folder) for one in wanted])
            comparison.measure(repeat, _tell)
    except Stopped as stopped:
        _tell(f"{stopped}; the measurements are in sessions {comparison.session}-…; the same command continues")
        sys.exit(stopped.exit_code)
    found = _found(comparison, repeat, metrics, better, min_effect)
    _report(found, comparison, min_effect, as_json=as_json)
    if fail and any(one.judgement.says == "regression" for one in found.answers if not _is_null(one)):
        sys.exit(1)
    if fail and found.is_broken:
        sys.exit(TROUBLE)


def _tell(text: str) -> None:
    click.echo(text, err=True)


def _refuse_namesakes(environments: Sequence[Environment]) -> None:
    names = [one.name for one in environments]
    if len(set(names)) < len(names):
        raise BenchError(f"environments need different names, found {', '.join(names)}: set `name` in the files")


def _begun(asked: Comparison, rounds: int, *, fresh: bool) -> Comparison:
    """Return the newest interrupted comparison with the same question, or a new one."""
    from curator_bench.hunting.alternation import comparison_key
    from curator_bench.hunting.session_names import newest_number

    prefix = f"ab-{comparison_key(asked.environments, asked.pytest_args, asked.folder)}"
    newest = newest_number(asked.database, prefix)
    before = replace(asked, session=f"{prefix}-{max(newest, 1)}")
    return replace(asked, session=f"{prefix}-{newest + 1}") if fresh or before.is_complete(rounds) else before


@dataclass(frozen=True, slots=True)
class _Found:
    answers: Sequence[Answer]
    missing: Sequence[tuple[Series, str]]
    """Series that could not be compared, each with its environment."""
    is_broken: bool
    """True if A measured one of the missing series."""


def _found(
    comparison: Comparison, rounds: int, metrics: Sequence[str], better: str | None, min_effect: float
) -> _Found:
    from curator_bench.hunting.alternation import answers, directions
    from curator_bench.verdict.direction import Better

    first, *others = measured = comparison.measured(rounds)
    every = list(dict.fromkeys(series for side in measured for series in side))
    chosen = directions(every, metrics, Better(better) if better else None)
    by_side = {
        side.name: answers(first, other, side.name, chosen, min_effect)
        for side, other in zip(comparison.sides[1:], others, strict=True)
    }
    found = _without_null(list(by_side.values()))
    if not found:
        known = ", ".join(sorted({series.metric for series in first})[:20])
        raise BenchError(f"nothing to compare: {comparison.environments[0].name} measured {known or 'nothing'}")
    missing = [
        (series, one.name)
        for series in chosen
        for one in comparison.environments[1:]
        if series not in {answer.series for answer in by_side[one.name]}
    ]
    return _Found(found, missing, any(len(first.get(series, ())) >= _FEWEST for series, _ in missing))


def _is_null(one: Answer) -> bool:
    from curator_bench.hunting.alternation import AGAIN

    return one.environment.endswith(f"-{AGAIN}")


_NULL = "A differs from A in this metric, so its rounds do not show a difference of environments"


def _without_null(sides: Sequence[Sequence[Answer]]) -> list[Answer]:
    """Return the answers of all environments. A metric that differs between A and A is inconclusive."""
    found = [answer for side in sides for answer in side]
    null = {one.series for one in found if _is_null(one) and _differs(one)}
    return [_open(one) if one.series in null and _differs(one) else one for one in found]


def _differs(one: Answer) -> bool:
    return one.judgement.says in ("regression", "improvement")


def _open(one: Answer) -> Answer:
    from curator_bench.verdict.judgement import Word

    decided = "more rounds, or a quieter machine"
    return replace(one, judgement=replace(one.judgement, word=Word.INCONCLUSIVE, reason=_NULL, decides=decided))


def _report(found: _Found, comparison: Comparison, min_effect: float, *, as_json: bool) -> None:
    if as_json:
        click.echo(json_text(_document(found, comparison)), nl=False)
        return
    first = comparison.environments[0].name
    heads = ("BENCHMARK", "METRIC", "ENVIRONMENT", f">{first}", ">VALUE", ">CHANGE", "95 % INTERVAL", ">VISIBLE")
    shown = [one for one in found.answers if not _is_null(one)]
    tables.print_table(tables.columns(*heads, "VERDICT"), [_row(one) for one in shown])
    tables.say("")
    for line in judgements.notes([(f"{one.series.entry} {one.series.metric}", one.judgement) for one in shown]):
        tables.say(line)
    for series, name in found.missing:
        which = f"fewer than {_FEWEST} rounds of both {first} and {name} measured a number"
        tables.say(f"not compared: {series.entry} {series.metric}: {which}")
    for line in _null_test(found.answers, first):
        tables.say(line)
    tables.say(f"Changes of less than {tables.share(min_effect)} do not count. Sessions: {comparison.session}-…")


def _row(one: Answer) -> tuple[str, ...]:
    judgement = one.judgement
    return (
        one.series.entry,
        one.series.metric,
        one.environment,
        tables.measured(one.series.metric, judgement.before),
        tables.measured(one.series.metric, judgement.after),
        tables.change(judgement.change),
        tables.interval(judgement.interval) if judgement.interval else "",
        judgements.visible(judgement),
        judgement.says,
    )


def _null_test(found: Sequence[Answer], first: str) -> Iterator[str]:
    null = [one for one in found if _is_null(one)]
    differ = [one for one in null if _is_refuted(one.judgement)]
    fine = "" if differ else ", as it should be"
    yield f"{first} against {first}: {len(differ)} of {len(null)} metrics differ{fine}"
    yield from (f"  {one.series.entry} {one.series.metric} {tables.change(one.judgement.change)}" for one in differ)


def _is_refuted(judgement: Judgement) -> bool:
    return judgement.reason == _NULL


def _document(found: _Found, comparison: Comparison) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "sessions": f"{comparison.session}-",
        "environments": [one.name for one in comparison.environments],
        "answers": [
            {
                "entry": one.series.entry,
                "metric": one.series.metric,
                "environment": one.environment,
                "null_test": _is_null(one),
                **judgements.document(one.judgement),
            }
            for one in found.answers
        ],
        "not_compared": [
            {"entry": series.entry, "metric": series.metric, "environment": name} for series, name in found.missing
        ],
    }
