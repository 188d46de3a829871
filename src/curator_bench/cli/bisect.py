"""`curator-bench bisect`: finds the commit, or the packages, that made a metric of a benchmark worse."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from curator_bench.cli import tables
from curator_bench.cli.after_dashes import WithPytestArgs
from curator_bench.cli.bisections import (
    BUDGET_SPENT,
    MORE_RUNS,
    Asked,
    change_to,
    code_of,
    direction_of,
    ending_in_order,
    not_begun,
    session_of,
    tell,
)
from curator_bench.cli.databases import absolute, db_option
from curator_bench.cli.end_profiles import document, print_profiled, profile_options, profile_request
from curator_bench.cli.parameters import Duration, min_effect_option
from curator_bench.errors import BenchError
from curator_bench.files.codec import json_text

if TYPE_CHECKING:
    from curator_bench.hunting.bench import Bench
    from curator_bench.hunting.bisecting import BisectRequest, Outcome, TriedCommit
    from curator_bench.hunting.repository import Repository
    from curator_bench.verdict.sequential import SequentialPlan


@click.command("bisect", cls=WithPytestArgs)
@click.option("--repo", type=click.Path(path_type=Path, exists=True), default=".", help="the checkout to bisect")
@click.option("--good", metavar="REF", help="a commit that is fast enough")
@click.option("--bad", metavar="REF", help="a later commit that is not")
@click.option(
    "--packages",
    nargs=2,
    metavar="A B",
    help="instead of commits: files (uv.lock, requirements, pip freeze) or sessions; B is slower",
)
@click.option("--entry", required=True, metavar="NAME", help="name or id of the entry; node id of a Python benchmark")
@click.option("--metric", required=True, help="the metric that got worse")
@click.option("--better", type=click.Choice(["less", "more"]), help="if the metric's name does not tell")
@min_effect_option("differences")
@click.option("--install", metavar="COMMAND", help='command to run after each checkout: "pip install -e ."')
@click.option("--skip-build-failures", is_flag=True, help="skip commits that cannot be installed")
@click.option("--runs", type=click.IntRange(3), default=5, show_default=True, help="fewest runs of a commit")
@click.option("--max-runs", type=click.IntRange(5), default=30, show_default=True, help="most runs of a commit")
@click.option("--budget", type=Duration(), metavar="TIME", help="begin no measurement after this time: 90s, 20m, 2h")
@profile_options
@click.option(
    "--fresh", is_flag=True, help="measure again instead of continuing an earlier bisect with the same options"
)
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of a table")
@db_option
def command(
    repo: Path,
    good: str | None,
    bad: str | None,
    packages: tuple[str, str] | None,
    entry: str,
    metric: str,
    better: str | None,
    min_effect: float,
    install: str | None,
    skip_build_failures: bool,
    runs: int,
    max_runs: int,
    budget: float | None,
    profilers: tuple[str, ...],
    profile_native: bool,
    fresh: bool,
    as_json: bool,
    database: str,
    pytest_args: tuple[str, ...],
) -> None:
    """Find the commit between --good and --bad that made --metric of --entry worse, or with --packages the packages.

    Good and bad are measured in turns until it is certain that they differ. Then `git bisect` leads from commit to
    commit, and each is measured until it can be judged. The checkout is restored afterwards. With --packages,
    environments between A and B are built and measured instead, and the checkout stays as it is. With --profile, the
    function that became slower is named, too.

    All measurements are in the database, so the same command continues after an interruption. PYTEST_ARGS are the files
    pytest runs; without them, the matrices in benchmarks/ or in this folder.

    The exit code is 0 if the commit or the packages were found, 3 if bad is not worse than good, 4 if the runs do not
    decide it.
    """
    from curator_bench.cli.bisect_packages import bisect_packages
    from curator_bench.hunting.bench import Bench
    from curator_bench.hunting.bisecting import BisectRequest
    from curator_bench.verdict.sequential import SequentialPlan

    if runs > max_runs:
        raise BenchError(f"--runs {runs} is more than --max-runs {max_runs}")
    plan = SequentialPlan(direction_of(metric, better), min_effect, 1, runs, max_runs)
    bench = Bench(entry, metric, absolute(database), pytest_args)
    deadline = math.inf if budget is None else time.monotonic() + budget
    profile = profile_request(profilers, native=profile_native, limit=min_effect, deadline=deadline)
    asked = Asked(bench, plan, deadline, profile, is_fresh=fresh, as_json=as_json)
    if packages is not None:
        if good or bad or install or skip_build_failures:
            raise click.UsageError("--packages needs no --good, --bad, --install or --skip-build-failures")
        bisect_packages(packages, asked)
    elif good and bad:
        _bisect_commits(repo, BisectRequest(good, bad, install, skip_build_failures, asked.profile), asked)
    else:
        raise click.UsageError("name two commits with --good and --bad, or two lists of packages with --packages A B")


def _bisect_commits(repo: Path, request: BisectRequest, asked: Asked) -> None:
    from curator_bench.hunting.bisecting import Bisection, hunt_key
    from curator_bench.hunting.repository import Repository
    from curator_bench.verdict.sequential import steps_between

    repository = Repository(repo)
    ends = repository.commit(request.good), repository.commit(request.bad)
    commits = repository.between(*ends)
    plan = replace(asked.plan, steps=steps_between(len(commits)))
    bench = asked.between(ends[0].short, ends[1].short)
    about = f"{tables.how_many(len(commits), 'commit')} from {ends[0]} to {ends[1]}"
    session = session_of(bench, hunt_key(bench, request, *ends), about, is_fresh=asked.is_fresh)
    with ending_in_order(f"{repository.top} is restored; "):
        outcome = Bisection(repository, bench, request, plan, session, tell, asked.deadline).run(*ends)
    _report(outcome, commits, bench, plan, repository, as_json=asked.as_json)
    sys.exit(code_of(outcome.difference, is_found=outcome.culprit is not None))


def _report(
    outcome: Outcome,
    commits: Sequence[str],
    bench: Bench,
    plan: SequentialPlan,
    repository: Repository,
    *,
    as_json: bool,
) -> None:
    place = {sha: number for number, sha in enumerate(commits, 1)}
    tried = sorted(outcome.tried, key=lambda one: place.get(one.of.sha, 0))
    if as_json:
        click.echo(json_text(_document(outcome, tried, bench)), nl=False)
        return
    heads = tables.columns("COMMIT", "SUBJECT", ">RUNS", f">{bench.metric}", ">CHANGE", "IS", "WHY")
    tables.print_table(heads, [_row(one, tried[0]) for one in tried])
    tables.say("")
    for line in _said(outcome, tried, bench, plan, repository):
        tables.say(line)
    if outcome.profiled is not None:
        print_profiled(outcome.profiled)


def _row(one: TriedCommit, good: TriedCommit) -> tuple[str, ...]:
    change = change_to(good, one)
    shown = "" if change is None else tables.change(change.change)
    level = "" if change is None else tables.number(change.after)
    return (
        one.of.short,
        one.of.subject,
        str(len(one.runs.values)),
        level,
        shown if one is not good else "",
        str(one.judgement or ""),
        one.why,
    )


def _said(
    outcome: Outcome, tried: Sequence[TriedCommit], bench: Bench, plan: SequentialPlan, repository: Repository
) -> Iterator[str]:
    from curator_bench.verdict.judgement import Word

    if outcome.culprit is not None:
        yield f"The first bad commit is {outcome.culprit.sha}"
        yield f"  {tables.printable(outcome.culprit.subject)} ({outcome.culprit.author}, {outcome.culprit.date})"
        change = _at_the_culprit(outcome, tried)
        if change is not None:
            sure = f"95 % confidence interval {tables.interval(change.interval)}"
            yield f"  {bench.metric} {tables.change(change.change)} ({sure})"
    elif outcome.difference is Word.REGRESSION:
        judged = "" if outcome.is_budget_spent else "; the others cannot be judged"
        yield f"The first bad commit is one of these{judged}:"
        yield from (f"  {tables.printable(str(commit))}" for commit in outcome.suspects)
        if outcome.is_budget_spent:
            yield BUDGET_SPENT
        if any(one.is_undecided for one in tried):
            yield MORE_RUNS
    else:
        yield from not_begun(outcome.difference, outcome.ends, bench.metric, plan, ("the good one", "the bad commit"))


def _at_the_culprit(outcome: Outcome, tried: Sequence[TriedCommit]) -> Any:
    """Return the change from the last measured commit before the culprit to the culprit."""
    measured = [one for one in tried if one.runs.values]
    place = next((n for n, one in enumerate(measured) if one.of == outcome.culprit), 0)
    return change_to(measured[place - 1], measured[place]) if place else None


def _document(outcome: Outcome, tried: Sequence[TriedCommit], bench: Bench) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "entry": bench.entry,
        "metric": bench.metric,
        "difference": str(outcome.difference),
        "change": outcome.ends.change,
        "interval": list(outcome.ends.interval),
        "culprit": outcome.culprit.sha if outcome.culprit else None,
        "suspects": [commit.sha for commit in outcome.suspects],
        "profiles": outcome.profiled and document(outcome.profiled),
        "tried": [
            {
                "commit": one.of.sha,
                "subject": one.of.subject,
                "judgement": one.judgement and str(one.judgement),
                "why": one.why,
                "values": list(one.runs.values),
            }
            for one in tried
        ],
    }
