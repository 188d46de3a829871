"""`curator-bench bisect`: finds the commit that made a metric of a benchmark worse."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from curator_bench.cli import tables
from curator_bench.cli.after_dashes import WithPytestArgs
from curator_bench.cli.databases import absolute, db_option
from curator_bench.cli.parameters import min_effect_option
from curator_bench.errors import BenchError
from curator_bench.files.codec import json_text

if TYPE_CHECKING:
    from curator_bench.hunting.bench import Bench
    from curator_bench.hunting.bisecting import Outcome, Tried
    from curator_bench.hunting.repository import Repository
    from curator_bench.verdict.judgement import Word
    from curator_bench.verdict.sequential import SequentialPlan

_NOT_WORSE, _IN_DOUBT = 3, 4
_MORE_RUNS = (
    "The same command with a higher --max-runs continues. `curator-bench doctor` says what makes this machine noisy."
)


@click.command("bisect", cls=WithPytestArgs)
@click.option("--repo", type=click.Path(path_type=Path, exists=True), default=".", help="the checkout to bisect")
@click.option("--good", required=True, metavar="REF", help="a commit that is fast enough")
@click.option("--bad", required=True, metavar="REF", help="a later commit that is not")
@click.option("--entry", required=True, metavar="NAME", help="name or id of the entry; node id of a Python benchmark")
@click.option("--metric", required=True, help="the metric that got worse")
@click.option("--better", type=click.Choice(["less", "more"]), help="if the metric's name does not tell")
@min_effect_option("differences")
@click.option("--install", metavar="COMMAND", help='command to run after each checkout: "pip install -e ."')
@click.option("--skip-build-failures", is_flag=True, help="skip commits that cannot be installed")
@click.option("--runs", type=click.IntRange(3), default=5, show_default=True, help="fewest runs of a commit")
@click.option("--max-runs", type=click.IntRange(5), default=30, show_default=True, help="most runs of a commit")
@click.option(
    "--fresh", is_flag=True, help="measure again instead of continuing an earlier bisect with the same options"
)
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of a table")
@db_option
def command(
    repo: Path,
    good: str,
    bad: str,
    entry: str,
    metric: str,
    better: str | None,
    min_effect: float,
    install: str | None,
    skip_build_failures: bool,
    runs: int,
    max_runs: int,
    fresh: bool,
    as_json: bool,
    database: str,
    pytest_args: tuple[str, ...],
) -> None:
    """Find the commit between --good and --bad that made --metric of --entry worse.

    Good and bad are measured in turns until it is certain that they differ. Then `git bisect` leads from commit to
    commit, and each is measured until it can be judged. The checkout is restored afterwards. All measurements are in
    the database, so the same command continues after an interruption. PYTEST_ARGS are the files pytest runs; without
    them, the matrices in benchmarks/ or in this folder.

    The exit code is 0 if the commit was found, 3 if the bad commit is not worse than the good one, 4 if the runs do not
    decide it.
    """
    from curator_bench.hunting.bench import Bench
    from curator_bench.hunting.bisecting import Bisection, BisectRequest
    from curator_bench.hunting.children import Stopped, stoppable
    from curator_bench.hunting.repository import Repository
    from curator_bench.verdict.sequential import SequentialPlan, steps_between

    if runs > max_runs:
        raise BenchError(f"--runs {runs} is more than --max-runs {max_runs}")
    direction = _direction(metric, better)
    repository = Repository(repo)
    request = BisectRequest(good, bad, install, skip_build_failures)
    ends = repository.commit(good), repository.commit(bad)
    commits = repository.between(*ends)
    plan = SequentialPlan(direction, min_effect, steps_between(len(commits)), runs, max_runs)
    reason = f"bisect of {metric} between {ends[0].short} and {ends[1].short}"
    bench = Bench(entry, metric, absolute(database), pytest_args, reason)
    bench.refuse_unknown()
    session, is_new = _session(bench, request, ends, fresh=fresh)
    _tell(f"{tables.how_many(len(commits), 'commit')} from {ends[0]} to {ends[1]}; sessions {session}-…")
    if not is_new:
        _tell("an earlier bisect is continued: its runs count, and only missing ones are measured (--fresh: all anew)")
    try:
        with stoppable():
            outcome = Bisection(repository, bench, request, plan, session, _tell).run(*ends)
    except Stopped as stopped:
        _tell(f"{stopped}; {repository.top} is restored; the same command continues")
        sys.exit(stopped.exit_code)
    _report(outcome, commits, bench, plan, repository, as_json=as_json)
    sys.exit(_code(outcome))


def _direction(metric: str, declared: str | None) -> Any:
    from curator_bench.verdict.direction import better_of

    found = better_of(metric, declared)
    if found is None:
        raise BenchError(
            f"it is not known whether {metric} should be small or large: add --better less or --better more"
        )
    return found


def _tell(text: str) -> None:
    click.echo(text, err=True)


def _session(bench: Bench, request: Any, ends: Any, *, fresh: bool) -> tuple[str, bool]:
    """Return the prefix of the session names, and whether it is new: an earlier bisect like this one is continued."""
    from curator_bench.hunting.bisecting import hunt_key
    from curator_bench.hunting.session_names import newest_number

    prefix = f"bisect-{hunt_key(bench, request, *ends)}"
    newest = newest_number(bench.database, prefix)
    is_new = fresh or not newest
    return f"{prefix}-{newest + 1 if is_new else newest}", is_new


def _code(outcome: Outcome) -> int:
    from curator_bench.verdict.judgement import Word

    if outcome.culprit is not None:
        return 0
    return _NOT_WORSE if outcome.difference in (Word.NO_CHANGE, Word.IMPROVEMENT) else _IN_DOUBT


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
    tried = sorted(outcome.tried, key=lambda one: place.get(one.commit.sha, 0))
    if as_json:
        click.echo(json_text(_document(outcome, tried, bench)), nl=False)
        return
    heads = tables.columns("COMMIT", "SUBJECT", ">RUNS", f">{bench.metric}", ">CHANGE", "IS", "WHY")
    tables.print_table(heads, [_row(one, tried[0]) for one in tried])
    tables.say("")
    for line in _said(outcome, tried, bench, plan, repository):
        tables.say(line)


def _row(one: Tried, good: Tried) -> tuple[str, ...]:
    change = _change(good, one)
    shown = "" if change is None else tables.change(change.change)
    level = "" if change is None else tables.number(change.after)
    return (
        one.commit.short,
        one.commit.subject,
        str(len(one.runs.values)),
        level,
        shown if one is not good else "",
        str(one.judgement or ""),
        one.why,
    )


def _change(before: Tried, after: Tried) -> Any:
    import numpy as np

    from curator_bench.verdict.intervals import change_between
    from curator_bench.verdict.noise import BLOCK

    if not (before.runs.values and after.runs.values):
        return None
    return change_between(np.array(before.runs.values[-BLOCK:]), np.array(after.runs.values[-BLOCK:]))


def _said(
    outcome: Outcome, tried: Sequence[Tried], bench: Bench, plan: SequentialPlan, repository: Repository
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
        yield "The first bad commit is one of these; the others cannot be judged:"
        yield from (f"  {tables.printable(str(commit))}" for commit in outcome.suspects)
        if any(one.is_undecided for one in tried):
            yield _MORE_RUNS
    else:
        ends = f"{bench.metric} {tables.change(outcome.ends.change)}, interval {tables.interval(outcome.ends.interval)}"
        yield f"{outcome.difference}: {_why_not(outcome.difference, plan)} ({ends})"
        yield _MORE_RUNS if outcome.difference is Word.INCONCLUSIVE else "There is nothing to bisect."


def _why_not(difference: Word, plan: SequentialPlan) -> str:
    """Return why bisecting did not begin."""
    return {
        "improvement": "the bad commit is better than the good one",
        "no change": f"the measured difference is below {tables.share(plan.min_effect)}",
    }.get(difference.value, f"{plan.most} runs of each do not decide whether the bad commit is worse")


def _at_the_culprit(outcome: Outcome, tried: Sequence[Tried]) -> Any:
    """Return the change from the last measured commit before the culprit to the culprit."""
    measured = [one for one in tried if one.runs.values]
    place = next((n for n, one in enumerate(measured) if one.commit == outcome.culprit), 0)
    return _change(measured[place - 1], measured[place]) if place else None


def _document(outcome: Outcome, tried: Sequence[Tried], bench: Bench) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "entry": bench.entry,
        "metric": bench.metric,
        "difference": str(outcome.difference),
        "change": outcome.ends.change,
        "interval": list(outcome.ends.interval),
        "culprit": outcome.culprit.sha if outcome.culprit else None,
        "suspects": [commit.sha for commit in outcome.suspects],
        "tried": [
            {
                "commit": one.commit.sha,
                "subject": one.commit.subject,
                "judgement": one.judgement and str(one.judgement),
                "why": one.why,
                "values": list(one.runs.values),
            }
            for one in tried
        ],
    }
