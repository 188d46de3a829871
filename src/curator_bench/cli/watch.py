"""`curator-bench watch`: looks for the cause of each open finding, and keeps an issue for each."""

from __future__ import annotations

import math
import os
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from curator_bench.cli import tables
from curator_bench.cli.after_dashes import WithPytestArgs
from curator_bench.cli.databases import reading
from curator_bench.cli.finding_changes import commit_log
from curator_bench.cli.parameters import Duration
from curator_bench.cli.record import record_at, record_option, tell
from curator_bench.errors import BenchError

if TYPE_CHECKING:
    from curator_bench.causes.judged_history import JudgedHistory
    from curator_bench.sharing.issue_texts import Surroundings
    from curator_bench.sharing.issues import Tracker
    from curator_bench.sharing.working_copy import WorkingCopy


@click.command("watch", cls=WithPytestArgs)
@record_option
@click.option("--budget", type=Duration(), metavar="TIME", help="begin no measurement after this time: 90s, 20m, 2h")
@click.option(
    "--most", type=click.IntRange(0), default=10, show_default=True, help="the most issues opened in 24 hours"
)
@click.option("--label", "labels", multiple=True, metavar="NAME", help="a label of the issues, besides curator-bench")
@click.option("--dashboard", default="", metavar="URL", help="the dashboard, which the issues link")
@click.option(
    "--repo",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
    help="the checkout to bisect",
)
@click.option("--install", metavar="COMMAND", help='command to run after each checkout: "pip install -e ."')
@click.option(
    "--work",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("results", "watch"),
    show_default=True,
    help="folder for a copy of the record",
)
@click.option("--dry-run", is_flag=True, help="print the issues of open findings, and measure and change nothing")
def command(
    record: str,
    budget: float | None,
    most: int,
    labels: tuple[str, ...],
    dashboard: str,
    repo: Path,
    install: str | None,
    work: Path,
    dry_run: bool,
    pytest_args: tuple[str, ...],
) -> None:
    """Look for the cause of each open regression of the record, and keep one issue for each.

    Each is measured again and bisected, the largest and surest first. One that is confirmed gets an issue on GitHub or
    GitLab, which is updated when more is known, and closed when the benchmark recovers. What was measured is added to
    the record, so the next call continues. An issue that a person has closed stays closed.

    On GitHub the job needs GITHUB_TOKEN and `permissions: {issues: write}`. On GitLab it needs GITLAB_TOKEN, a project
    access token with the role Reporter and the scope api. PYTEST_ARGS are those of `curator-bench bisect`.

    The exit code is 0 also if some regressions wait for the next call, and 1 if one could not be bisected.
    """
    from curator_bench.hunting.children import Stopped, scratch_folder, stoppable
    from curator_bench.sharing.issues import tracker_of
    from curator_bench.sharing.measured_causes import Bisector, not_measured
    from curator_bench.sharing.watching import Watch
    from curator_bench.sharing.working_copy import WorkingCopy

    tracker = _printed() if dry_run else tracker_of(os.environ)
    deadline = math.inf if budget is None else time.monotonic() + budget
    options = ("--install", install) if install else ()
    with scratch_folder() if dry_run else nullcontext(work) as folder:
        copy = WorkingCopy(record_at(record), folder)
        copy.begin(is_fresh=True)
        if not copy.record.is_server and not Path(copy.database).exists():
            raise BenchError(f"there is no record at {copy.record.shown} yet: `curator-bench nightly` makes one")
        judged, around = _read(copy, repo, dashboard, labels, tracker.longest)
        bisector = Bisector(around.changes, copy.database, repo, options, pytest_args, deadline, tell, copy.add)
        look_into = not_measured if dry_run else bisector.look_into
        try:
            with stoppable():
                waiting = Watch(tracker, look_into, around, most, _told_dry if dry_run else tell).run(judged)
        except Stopped as stopped:
            if not dry_run:
                copy.add()
            tell(f"{stopped}; the same command continues")
            sys.exit(stopped.exit_code)
    if waiting and not dry_run:
        tell(f"{tables.how_many(waiting, 'regression waits', 'regressions wait')} for the next time")
    if bisector.failed:
        raise BenchError(f"not bisected, and without an issue: {', '.join(bisector.failed)}; the lines above say why")


def _printed() -> Tracker:
    """Return a tracker that prints. In a job it reads the issues that are there."""
    from curator_bench.sharing.issues import tracker_of
    from curator_bench.sharing.printed_issues import PrintedIssues

    is_job = any(os.environ.get(name) for name in ("GITHUB_REPOSITORY", "CI_PROJECT_ID"))
    return PrintedIssues(click.echo, tracker_of(os.environ) if is_job else None)


def _told_dry(text: str) -> None:
    tell(f"dry run: {text}")


def _read(
    copy: WorkingCopy, repo: Path, dashboard: str, labels: tuple[str, ...], longest: int
) -> tuple[JudgedHistory, Surroundings]:
    """Judge the record, and find what changed around each open regression."""
    from curator_bench.causes.finding_changes import changes_of
    from curator_bench.causes.judged_history import Query, judge_history
    from curator_bench.sharing.issue_texts import Surroundings
    from curator_bench.sharing.watching import in_turn

    with reading(copy.database) as opened, opened.reading() as connection:
        judged = judge_history(connection, Query(repo=repo))
        changes = changes_of(connection, in_turn(judged))
    return judged, Surroundings(changes, commit_log(repo), dashboard, labels, longest, copy.record.shown)
