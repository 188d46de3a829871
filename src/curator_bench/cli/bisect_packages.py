"""`curator-bench bisect --packages`: finds the packages that made a metric of a benchmark worse."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from curator_bench.cli import tables
from curator_bench.cli.bisections import (
    BUDGET_SPENT,
    MORE_RUNS,
    Asked,
    change_to,
    code_of,
    ending_in_order,
    not_begun,
    session_of,
    tell,
)
from curator_bench.cli.databases import reading
from curator_bench.cli.end_profiles import document, print_profiled
from curator_bench.cli.names import sessions_named
from curator_bench.errors import BenchError
from curator_bench.files.codec import json_text

if TYPE_CHECKING:
    from curator_bench.hunting.bench import Bench
    from curator_bench.hunting.package_bisecting import PackageCause, PackageOutcome, TriedEnvironment
    from curator_bench.hunting.package_lists import PackageList
    from curator_bench.hunting.package_units import Unit
    from curator_bench.verdict.sequential import SequentialPlan

_MACHINE_SHOWN = 3


def bisect_packages(names: tuple[str, str], asked: Asked) -> None:
    """Bisect between two lists of packages, print the result, and exit."""
    from curator_bench.hunting.kept_folders import alone_on_this_machine
    from curator_bench.hunting.mixed_environments import MixedEnvironments
    from curator_bench.hunting.package_bisecting import PackageBisection, package_key, steps_for

    bench = asked.between(*names)
    _refuse_own_interpreter(bench)
    before, after = (_packages_of(name, bench) for name in names)
    with ending_in_order(), alone_on_this_machine(tell):
        environments = MixedEnvironments(before, after, tell)
        bisection = PackageBisection(environments, bench, tell, asked.deadline)
        for line in (*environments.fixed(), *_not_bisected(before, after)):
            tell(f"not bisected: {line}")
        about = f"{_counted(bisection.units)} between {before.name} (A) and {after.name} (B)"
        session = session_of(bench, package_key(bench, before, after), about, is_fresh=asked.is_fresh)
        for line in _together(bisection.units):
            tell(line)
        plan = replace(asked.plan, steps=steps_for(len(bisection.units)))
        outcome = bisection.run(plan, session, asked.profile)
    (_print_json if asked.as_json else _print)(outcome, bench, plan)
    sys.exit(code_of(outcome.difference, is_found=bool(outcome.causes)))


def _packages_of(named: str, bench: Bench) -> PackageList:
    """Read a file, or else the session of this name."""
    from curator_bench.hunting.package_lists import read_packages
    from curator_bench.hunting.recorded_packages import recorded_packages

    if Path(named).is_file():
        return read_packages(Path(named))
    try:
        with reading(bench.database) as opened, opened.reading() as connection:
            return recorded_packages(connection, named, sessions_named(connection, named), bench.entry)
    except BenchError as error:
        raise BenchError(f"--packages: {named} is no file; as a session: {error}") from error


def _refuse_own_interpreter(bench: Bench) -> None:
    from curator_bench.hunting.benchmarks import entries_of

    for entry in entries_of(bench.pytest_args, bench.folder):
        if entry.python and bench.entry in (entry.id, entry.name):
            raise BenchError(
                f"{bench.entry} runs with {entry.python}, whose packages are not exchanged: remove `python`"
            )


def _not_bisected(before: PackageList, after: PackageList) -> Iterator[str]:
    """Say what else differs between two sessions."""
    if before.python and after.python and before.python != after.python:
        here = ".".join(map(str, sys.version_info[:3]))
        yield f"Python {before.python} → {after.python}; all is measured with {here}"
    known = sorted(before.machine.keys() & after.machine.keys() - {"python"})
    differing = [name for name in known if before.machine[name] != after.machine[name]]
    if differing:
        facts = [f"{name} {before.machine[name]} → {after.machine[name]}" for name in differing[:_MACHINE_SHOWN]]
        more = f" and {len(differing) - len(facts)} more" if len(differing) > len(facts) else ""
        yield f"the machine: {', '.join(facts)}{more}; all is measured on this one"


def _counted(units: list[Unit]) -> str:
    return tables.how_many(sum(len(unit.changes) for unit in units), "package") + " differ"


def _together(units: list[Unit]) -> Iterator[str]:
    for unit in units:
        if len(unit.changes) > 1:
            yield f"only together, as their versions need each other: {unit}"


def _print(outcome: PackageOutcome, bench: Bench, plan: SequentialPlan) -> None:
    heads = tables.columns("ENVIRONMENT", ">AS IN B", ">RUNS", f">{bench.metric}", ">CHANGE", "IS", "WHY")
    sides = sorted(zip(outcome.tried, outcome.new, strict=True), key=lambda pair: len(pair[1]))
    tables.print_table(heads, [_row(one, len(new), outcome.tried[0]) for one, new in sides])
    tables.say("")
    for line in _said(outcome, bench, plan):
        text = line.lstrip()
        tables.say(f"{line.removesuffix(text)}{tables.printable(text)}")
    if outcome.profiled is not None:
        print_profiled(outcome.profiled)


def _row(one: TriedEnvironment, new: int, good: TriedEnvironment) -> tuple[str, ...]:
    change = change_to(good, one)
    return (
        str(one.of),
        str(new),
        str(len(one.runs.values)),
        "" if change is None else tables.number(change.after),
        "" if change is None or one is good else tables.change(change.change),
        str(one.judgement or ""),
        one.why.partition("\n")[0],
    )


def _said(outcome: PackageOutcome, bench: Bench, plan: SequentialPlan) -> Iterator[str]:
    from curator_bench.verdict.judgement import Word

    if outcome.difference is not Word.REGRESSION:
        yield from not_begun(outcome.difference, outcome.ends, bench.metric, plan, ("A", "B"))
        return
    for number, one in enumerate(outcome.causes):
        yield from _cause(one, bench.metric, is_first=number == 0, is_only=len(outcome.causes) == 1)
    yield from _rest(outcome)
    yield f"{tables.how_many(len(outcome.tried), 'environment')} measured"
    if outcome.is_budget_spent:
        yield BUDGET_SPENT
    elif not outcome.is_all and any(one.is_undecided for one in outcome.tried):
        yield MORE_RUNS


def _cause(one: PackageCause, metric: str, *, is_first: bool, is_only: bool) -> Iterator[str]:
    together = ", and only together" if len(one.units) > 1 else ""
    yield f"{'Guilty' if is_first else 'Guilty, too'}{together}:"
    yield from (f"  {unit}" for unit in one.units)
    if one.companions:
        named = ", ".join(map(str, one.companions))
        yield f"It cannot be had without these, so what they contribute is not known: {named}"
    if one.change is None or one.share is None:
        return
    them = "it" if len(one.units) + len(one.companions) == 1 else "them"
    sure = f"95 % confidence interval {tables.interval(one.change.interval)}"
    share = "" if is_only else f": {tables.share(round(one.share, 2))} of the difference"
    yield f"  {metric} {tables.change(one.change.change)} with {them} alone ({sure}){share}"


def _rest(outcome: PackageOutcome) -> Iterator[str]:
    """Say whether the rest of the difference has another cause."""
    unfinished = outcome.guilty
    beyond = f"B is {tables.change(outcome.rest.change)} beyond that" if outcome.rest is not None else ""
    if outcome.is_all:
        yield "That explains the whole difference."
    elif outcome.suspects:
        known = [outcome.units[number] for number in sorted(unfinished.changes)]
        with_it = f"{', '.join(map(str, known))}, and " if known else ""
        yield f"{f'{beyond}; guilty, too' if outcome.causes else 'Guilty'}: {with_it}at least one of these:"
        yield from (f"  {unit}" for unit in outcome.suspects)
    elif not outcome.causes:
        yield "Guilty:" if len(unfinished.changes) == 1 else "Guilty, and only together:"
        yield from (f"  {unit}" for unit in outcome.culprits)
        yield "It was not told whether that is enough: others may be guilty, too"
    elif outcome.is_all is None:
        yield "It was not told whether that is enough: others may be guilty, too"
    else:
        yield f"{beyond}: other packages are guilty, too"


def _print_json(outcome: PackageOutcome, bench: Bench, plan: SequentialPlan) -> None:
    click.echo(json_text(_document(outcome, bench)), nl=False)


def _document(outcome: PackageOutcome, bench: Bench) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "entry": bench.entry,
        "metric": bench.metric,
        "difference": str(outcome.difference),
        "change": outcome.ends.change,
        "interval": list(outcome.ends.interval),
        "packages": [_changes([unit]) for unit in outcome.units],
        "culprits": _changes(outcome.culprits),
        "causes": [_cause_document(one) for one in outcome.causes],
        "explains_all": outcome.is_all,
        "rest": None if outcome.rest is None else outcome.rest.change,
        "suspects": _changes(outcome.suspects),
        "profiles": outcome.profiled and document(outcome.profiled),
        "tried": [
            {
                "environment": str(one.of),
                "as_in_b": sorted(new),
                "judgement": one.judgement and str(one.judgement),
                "why": one.why,
                "values": list(one.runs.values),
            }
            for one, new in zip(outcome.tried, outcome.new, strict=True)
        ],
    }


def _cause_document(one: PackageCause) -> dict[str, Any]:
    return {
        "packages": _changes(one.units),
        "needed": _changes(one.companions),
        "change": one.change and one.change.change,
        "interval": one.change and list(one.change.interval),
        "share": one.share,
    }


def _changes(units: Sequence[Unit]) -> list[dict[str, Any]]:
    return [{"name": one.name, "a": one.before, "b": one.after} for unit in units for one in unit.changes]
