"""The answer of `curator-bench ab`: as a table, as JSON, and as Markdown for a comment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from curator_bench.cli import judgements, tables
from curator_bench.cli.end_profiles import document, lines_for_comment, print_profiled
from curator_bench.files.codec import json_text
from curator_bench.files.planted import open_unless_planted
from curator_bench.words import code_block, markdown_cell

if TYPE_CHECKING:
    from curator_bench.hunting.comparing import Answer, Found
    from curator_bench.hunting.end_profiles import ProfiledEnds

_NULL = "A differs from A in this metric, so its rounds do not show a difference of the sides"
_MARKS = {"regression": "🔴", "improvement": "🟢", "inconclusive": "🟡"}
_MOST_ROWS = 200
_NOT_PROFILED = "Nothing is profiled: no metric is certain to differ."


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison that has ended."""

    session: str
    """The beginning of the names of its sessions."""
    sides: Sequence[str]
    found: Found
    about: Mapping[str, str] = field(default_factory=dict)
    """The commits of sides that are commits."""
    profiles: Sequence[ProfiledEnds] | None = None
    """The profiles of benchmarks that differ, by benchmark and side; None if they were not asked for."""

    @property
    def shown(self) -> list[Answer]:
        """The answers, the most important first."""
        answers = [one for one in self.found.answers if not one.is_null]
        return sorted(answers, key=lambda one: judgements.place_of(one.judgement.says))

    @property
    def null(self) -> list[Answer]:
        return [one for one in self.found.answers if one.is_null]

    def says(self, worst: str) -> bool:
        """True if a metric is a regression; with `inconclusive`, also if it is that."""
        return any(one.judgement.says in ("regression", worst) for one in self.shown)

    @property
    def summary(self) -> str:
        """One line: `1 regression, 2 no change in 6 rounds; every metric is decided`."""
        count = Counter(one.judgement.says for one in self.shown)
        said = ", ".join(
            tables.how_many(number, says) if _differs_by(says) else f"{number} {says}" for says, number in count.items()
        )
        return f"{said} in {tables.how_many(self.found.rounds, 'round')}; {self.found.ended}"


def refuted_by_null(compared: Compared) -> Compared:
    """Make a metric that differs between A and A inconclusive."""
    null = {one.series for one in compared.null if _differs(one)}
    answers = [_open(one) if one.series in null and _differs(one) else one for one in compared.found.answers]
    return replace(compared, found=replace(compared.found, answers=tuple(answers)))


def _differs(one: Answer) -> bool:
    return _differs_by(one.judgement.says)


def _differs_by(says: str) -> bool:
    return says in ("regression", "improvement")


def _open(one: Answer) -> Answer:
    from curator_bench.verdict.judgement import Word

    decided = "more rounds, or a quieter machine"
    judgement = replace(one.judgement, word=Word.INCONCLUSIVE, reason=_NULL, decides=decided)
    return replace(one, standing=replace(one.standing, judgement=judgement))


def print_table(compared: Compared) -> None:
    first = compared.sides[0]
    heads = ("BENCHMARK", "METRIC", "SIDE", f">{first}", ">VALUE", ">CHANGE", "95 % INTERVAL", ">VISIBLE", ">LIMIT")
    tables.print_table(tables.columns(*heads, "VERDICT"), [_row(one) for one in compared.shown])
    tables.say("")
    for line in (*_notes(compared), *_null_test(compared)):
        tables.say(line)
    tables.say(compared.summary)
    tables.say(_sessions(compared))
    if compared.profiles is not None and not compared.profiles:
        tables.say(_NOT_PROFILED)
    for one in compared.profiles or ():
        print_profiled(one)


def _row(one: Answer) -> tuple[str, ...]:
    judgement = one.judgement
    return (
        one.series.entry,
        one.series.metric,
        one.side,
        tables.measured(one.series.metric, judgement.before),
        tables.measured(one.series.metric, judgement.after),
        tables.change(judgement.change),
        tables.interval(judgement.interval) if judgement.interval else "",
        judgements.visible(judgement),
        tables.share(one.limit),
        judgement.says,
    )


def _notes(compared: Compared) -> Iterator[str]:
    yield from judgements.notes([(f"{one.series.entry} {one.series.metric}", one.judgement) for one in compared.shown])
    for series, name in compared.found.missing:
        which = f"too few rounds of both {compared.sides[0]} and {name} measured a number"
        yield f"not compared: {series.entry} {series.metric}: {which}"


def _sides(compared: Compared) -> Iterator[str]:
    yield from (f"{name} is {commit}" for name, commit in compared.about.items())


def _null_test(compared: Compared) -> Iterator[str]:
    if not compared.null:
        return
    differ = [one for one in compared.null if one.judgement.reason == _NULL]
    fine, first = "" if differ else ", as it should be", compared.sides[0]
    yield f"{first} against {first}: {len(differ)} of {len(compared.null)} metrics differ{fine}"
    yield from (f"  {one.series.entry} {one.series.metric} {tables.change(one.judgement.change)}" for one in differ)


def _sessions(compared: Compared) -> str:
    return f"Changes below the limit do not count. Sessions: {compared.session}-…"


def print_json(compared: Compared) -> None:
    click.echo(json_text(_document(compared)), nl=False)


def _document(compared: Compared) -> dict[str, Any]:
    found = compared.found
    return {
        "schema_version": 2,
        "sessions": f"{compared.session}-",
        "sides": list(compared.sides),
        "commits": dict(compared.about),
        "rounds": found.rounds,
        "ended": found.ended.name.lower(),
        "answers": [
            {
                "entry": one.series.entry,
                "metric": one.series.metric,
                "side": one.side,
                "null_test": one.is_null,
                "state": str(one.standing.state),
                "limit": one.limit,
                **judgements.document(one.judgement),
            }
            for one in found.answers
        ],
        "not_compared": [
            {"entry": series.entry, "metric": series.metric, "side": name} for series, name in found.missing
        ],
        "profiles": None if compared.profiles is None else list(map(document, compared.profiles)),
    }


def markdown(compared: Compared) -> str:
    """Return the answer for a comment: the summary, a table, and what would decide the open metrics."""
    first, *others = map(markdown_cell, compared.sides)
    shown = compared.shown
    lines = [f"### Benchmarks: {first} → {', '.join(others)}", "", f"**{markdown_cell(compared.summary)}**", ""]
    lines += [f"| | benchmark | metric | side | {first} | value | change | 95 % interval | visible | limit |"]
    lines += ["|---|---|---|---|--:|--:|--:|---|--:|--:|"]
    lines += [_markdown_row(one) for one in shown[:_MOST_ROWS]]
    if len(shown) > _MOST_ROWS:
        lines += ["", f"… and {len(shown) - _MOST_ROWS:,} more"]
    profiles = (line for one in compared.profiles or () for line in lines_for_comment(one))
    notes = (*_notes(compared), *_null_test(compared), *_sides(compared), *profiles)
    lines += ["", *(f"* {markdown_cell(line)}" for line in notes)]
    return "\n".join([*lines, "", markdown_cell(_sessions(compared)), ""])


def _markdown_row(one: Answer) -> str:
    *cells, says = map(markdown_cell, _row(one))
    return f"| {' | '.join([_MARKS.get(says, '⚪') + ' ' + says, *cells])} |"


def not_compared(why: str) -> str:
    """Return the Markdown of a comparison that failed."""
    return "\n".join(["### Benchmarks: nothing could be compared", "", *code_block(why.splitlines()), ""])


def write_report(file: Path, text: str) -> None:
    with open_unless_planted(file) as opened:
        opened.write(text.encode("utf-8"))
