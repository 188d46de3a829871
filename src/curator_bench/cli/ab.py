"""`curator-bench ab`: compares commits, or environments: interpreters, packages, variables, matrices."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from curator_bench.cli.ab_report import (
    Compared,
    markdown,
    not_compared,
    print_json,
    print_table,
    refuted_by_null,
    write_report,
)
from curator_bench.cli.after_dashes import WithPytestArgs
from curator_bench.cli.databases import absolute, db_option
from curator_bench.cli.end_profiles import profile_options, profile_request
from curator_bench.cli.exit_codes import TROUBLE, QuestionCommand
from curator_bench.cli.parameters import Duration, min_effect_option
from curator_bench.errors import BenchError

if TYPE_CHECKING:
    from curator_bench.hunting.alternation import Comparison
    from curator_bench.hunting.commit_sides import CommitRequest
    from curator_bench.hunting.comparing import CompareRequest, Ended
    from curator_bench.hunting.end_profiles import ProfiledEnds, ProfileRequest
    from curator_bench.hunting.environment_files import Environment
    from curator_bench.hunting.sides import Side

_FEWEST, _MOST = 5, 30
_ENVIRONMENT_FILES = (".yaml", ".yml")


class _Command(QuestionCommand, WithPytestArgs):
    """A command that answers a question by its exit code, and passes arguments to pytest."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """The user's request, but for what is compared."""

    database: str
    repeat: int
    deadline: float
    metrics: tuple[str, ...]
    better: str | None
    min_effect: float
    fresh: bool
    null_test: bool
    profile: ProfileRequest | None
    pytest_args: tuple[str, ...]


@click.command("ab", cls=_Command)
@click.argument("names", nargs=-1, metavar="A B …")
@click.option("--repo", type=click.Path(path_type=Path, exists=True), default=".", help="the checkout with the commits")
@click.option(
    "--install", metavar="COMMAND", help="install a commit with this command, in the commit's own environment"
)
@click.option("--own-benchmarks", is_flag=True, help="measure each commit with its own benchmarks")
@click.option("--budget", type=Duration(), metavar="TIME", help="begin no round after this time: 90s, 20m, 2h")
@click.option("--repeat", type=click.IntRange(_FEWEST), default=_MOST, show_default=True, help="most rounds of each")
@click.option("--metric", "metrics", multiple=True, help="this metric (repeatable); default: gates, else all known")
@click.option("--better", type=click.Choice(["less", "more"]), help="if the name of --metric does not tell")
@min_effect_option("changes")
@profile_options
@click.option("--null-test", is_flag=True, help="measure A twice, and trust no metric that differs from itself")
@click.option(
    "--fail-on",
    type=click.Choice(["regression", "inconclusive"]),
    default="regression",
    show_default=True,
    help="exit with 1 for a regression, or for an inconclusive metric, too",
)
@click.option("--name", "labels", multiple=True, help="name of a commit in the answer, in their order (repeatable)")
@click.option("--fresh", is_flag=True, help="start again instead of continuing an interrupted comparison")
@click.option("--markdown", "markdown_file", type=click.Path(path_type=Path), help="write the answer to this file, too")
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of a table")
@db_option
def command(
    names: tuple[str, ...],
    repo: Path,
    install: str | None,
    own_benchmarks: bool,
    budget: float | None,
    repeat: int,
    metrics: tuple[str, ...],
    better: str | None,
    min_effect: float,
    profilers: tuple[str, ...],
    profile_native: bool,
    null_test: bool,
    fail_on: str,
    labels: tuple[str, ...],
    fresh: bool,
    markdown_file: Path | None,
    as_json: bool,
    database: str,
    pytest_args: tuple[str, ...],
) -> None:
    """Run the same benchmarks on A, B, … in turns, and say how each differs from A.

    A and B are commits (branches, tags; `.` is the working tree), or environment files. Each commit is checked out
    into a folder of its own, and installed into an environment of its own. The keys of an environment file are
    `python`, `requirements` (installed into a new venv), `env` and `matrix` (overlays). Arguments after -- are for
    pytest. Measuring ends when each metric is decided. All measurements are in the database, so the same command
    continues after an interruption. With --profile, the functions are named that explain a difference.

    The exit code is 1 if there is a regression against A; 2 if nothing could be compared, or a benchmark that A has
    measured could not; else 0.
    """
    from curator_bench.hunting.children import Stopped, stoppable
    from curator_bench.hunting.commit_sides import CommitRequest

    deadline = math.inf if budget is None else time.monotonic() + budget
    profile = profile_request(profilers, native=profile_native, limit=min_effect, deadline=deadline)
    asked = _Asked(
        absolute(database), repeat, deadline, metrics, better, min_effect, fresh, null_test, profile, pytest_args
    )
    try:
        with stoppable():
            if _are_files(names):
                compared = _compare_files([Path(name) for name in names], asked)
            else:
                request = CommitRequest(names, pytest_args, repo.absolute(), install, own_benchmarks, labels)
                compared = _compare_commits(request, asked)
    except Stopped as stopped:
        _tell(f"{stopped}; the same command continues")
        sys.exit(stopped.exit_code)
    except BenchError as error:
        if markdown_file is not None:
            write_report(markdown_file, not_compared(str(error)))
        raise
    if markdown_file is not None:
        write_report(markdown_file, markdown(compared))
    (print_json if as_json else print_table)(compared)
    sys.exit(1 if compared.says(fail_on) else TROUBLE if compared.found.is_broken else 0)


def _are_files(names: Sequence[str]) -> bool:
    if len(names) < 2:
        raise click.UsageError("name two commits or environment files: curator-bench ab main my-branch -- benchmarks")
    files = [name for name in names if name.endswith(_ENVIRONMENT_FILES)]
    if files and len(files) < len(names):
        raise click.UsageError(f"{files[0]} is an environment file: name only commits, or only environment files")
    return bool(files)


def _tell(text: str) -> None:
    click.echo(text, err=True)


def _compare_files(files: Sequence[Path], asked: _Asked) -> Compared:
    from curator_bench.hunting.children import scratch_folder
    from curator_bench.hunting.environment_files import parts_of, read, ready, sides_of
    from curator_bench.hunting.kept_folders import alone_on_this_machine

    wanted, here = [read(file) for file in files], Path.cwd()
    _refuse_namesakes(wanted)
    parts = parts_of(wanted, asked.pytest_args, here)
    with alone_on_this_machine(_tell), scratch_folder() as folder:
        sides = sides_of([ready(one, folder) for one in wanted], asked.pytest_args, here)
        return _measured(sides, parts, asked)


def _compare_commits(request: CommitRequest, asked: _Asked) -> Compared:
    from curator_bench.hunting.alternation import results_beside
    from curator_bench.hunting.commit_sides import CommitSides

    commits = CommitSides(request, _tell)
    with commits.ready() as sides:
        results = results_beside(asked.database)
        found = _measured(sides, commits.parts(), asked, commits.refuse_wrong_imports, results)
        return replace(found, about=commits.described)


def _measured(
    sides: list[Side],
    parts: Sequence[str],
    asked: _Asked,
    check: Callable[[Side], None] = lambda _: None,
    results: Path | None = None,
) -> Compared:
    from curator_bench.hunting.alternation import Comparison, gates_of
    from curator_bench.hunting.benchmarks import entries_of
    from curator_bench.hunting.comparing import CompareRequest, compare
    from curator_bench.verdict.direction import Better

    again = [replace(sides[0], name=f"{sides[0].name}-again", is_null=True)] if asked.null_test else []
    request = CompareRequest(
        asked.repeat,
        asked.metrics,
        Better(asked.better) if asked.better else None,
        asked.min_effect,
        gates_of(entries_of(sides[-1].pytest_args, sides[-1].folder)),
        asked.deadline,
    )
    comparison = Comparison([*sides, *again], "", asked.database, asked.metrics, results)
    comparison = _begun(comparison, request, parts, asked)
    found = compare(comparison, request, _tell, check)
    compared = refuted_by_null(Compared(comparison.session, [side.name for side in sides], found))
    return replace(compared, profiles=_profiled(comparison, compared, asked.profile))


def _begun(wanted: Comparison, request: CompareRequest, parts: Sequence[str], asked: _Asked) -> Comparison:
    """Return the newest comparison with the same question if it is not over, or a new one."""
    from curator_bench.hunting.comparing import ended_by
    from curator_bench.hunting.session_names import key_of, newest_number

    prefix = f"ab-{key_of(parts)}"
    newest = newest_number(wanted.database, prefix)
    before, anew = (replace(wanted, session=f"{prefix}-{number}") for number in (max(newest, 1), newest + 1))
    if asked.fresh:
        return anew
    ended = ended_by(before, request, before.finished(request.most))
    return anew if ended and not _is_to_profile(before, request, ended, asked.profile) else before


def _is_to_profile(
    comparison: Comparison, request: CompareRequest, ended: Ended, profile: ProfileRequest | None
) -> bool:
    """True if a comparison that has ended differs where its profiles explain nothing yet."""
    from curator_bench.hunting.comparing import judged
    from curator_bench.hunting.side_profiles import side_profiles

    if profile is None:
        return False
    found = judged(comparison, request, comparison.finished(request.most), ended)
    return any(one.found().ended is None for one in side_profiles(comparison, found.answers, profile))


def _profiled(
    comparison: Comparison, compared: Compared, profile: ProfileRequest | None
) -> tuple[ProfiledEnds, ...] | None:
    """Profile what differs; None if that was not asked for."""
    from curator_bench.hunting.side_profiles import side_profiles

    if profile is None:
        return None
    _tell(compared.summary)
    wanted = side_profiles(comparison, compared.found.answers, profile)
    return tuple(one.profile(_tell) for one in wanted)


def _refuse_namesakes(environments: Sequence[Environment]) -> None:
    names = [one.name for one in environments]
    if len(set(names)) < len(names):
        raise BenchError(f"environments need different names, found {', '.join(names)}: set `name` in the files")
