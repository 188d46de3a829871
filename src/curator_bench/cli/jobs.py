"""`curator-bench jobs`: divides the entries of matrices into jobs of a CI system, by their recorded durations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from curator_bench.cli import tables
from curator_bench.cli.databases import db_option
from curator_bench.cli.exit_codes import QuestionCommand
from curator_bench.cli.loading import datasets_option, load_files, overlay_option, repo_option
from curator_bench.cli.parameters import Duration
from curator_bench.errors import BenchError

if TYPE_CHECKING:
    from curator_bench.sharing.jobs import Job, Session, Unit

_MOST_SHOWN = 10


def _session_name(_context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    from curator_bench.files.names import is_safe_name

    if name is not None and not is_safe_name(name):
        raise click.BadParameter(f"found {name!r}, expected letters, digits and _ . - + @, as in a folder's name")
    return name


@click.command("jobs", cls=QuestionCommand)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--count", type=click.IntRange(1, 1000), help="how many jobs (default: as few as --limit allows)")
@click.option("--limit", type=Duration(), default="6h", show_default=True, help="how long a job may take")
@click.option("--set-up", type=Duration(), default="10m", show_default=True, help="how much of that is no benchmark")
@click.option("-m", "mark", metavar="MARK", help="only entries with this mark")
@click.option("--session", callback=_session_name, help="name of the session of all jobs (default: the time)")
@click.option(
    "--out", default="jobs", show_default=True, type=click.Path(path_type=Path), help="folder for the files of the jobs"
)
@click.option("--github", is_flag=True, help="print the jobs as JSON, for strategy.matrix")
@click.option("--gitlab", is_flag=True, help="print the jobs as YAML, for a child pipeline")
@click.option("--shared", is_flag=True, help="all jobs write into one results directory, and take entries in turns")
@click.option("--missing", is_flag=True, help="only what has no result in --session; exit code 1 if there is any")
@overlay_option
@datasets_option
@repo_option
@db_option
def command(
    files: tuple[Path, ...],
    count: int | None,
    limit: float,
    set_up: float,
    mark: str | None,
    session: str | None,
    out: Path,
    github: bool,
    gitlab: bool,
    shared: bool,
    missing: bool,
    overlays: tuple[Path, ...],
    datasets: Path | None,
    curator_repo: str | None,
    database: str,
) -> None:
    """Divide the benchmarks in FILES into jobs that take about equally long.

    FILES are matrices, or folders with matrices and Python benchmarks. Each job is a file of arguments in --out, for
    `pytest @jobs/job-1.txt --benchmark` or `curator-bench nightly -- @jobs/job-1.txt` (pytest 8.2 or newer): the
    session that all jobs share, its entries by their exact ids, and whole modules of Python benchmarks. An entry takes
    as long as recorded, or as its timeout if it never passed.

    With --missing after the jobs, print what they left without a result, and write jobs for this.
    """
    from curator_bench.sharing import ci_jobs, jobs

    if github and gitlab:
        raise click.UsageError("--github and --gitlab cannot be used together")
    if shared and count is None:
        raise click.UsageError("--shared needs --count: there is no other way to know how many jobs take turns")
    matrices, modules = _files_in(files)
    matrix = load_files(matrices, overlays, datasets, curator_repo)
    entries = [entry for entry in matrix.entries if mark is None or mark in entry.marks]
    if not entries and not modules:
        raise BenchError(f"no entry has the mark {mark!r}" if mark else "no benchmarks: the matrices have no entries")
    asked = _session(session, database) if missing else _new_session(session)
    units = jobs.Benchmarks(entries, modules, Path.cwd()).units(database)
    if missing:
        units = _say_missing(units, asked, database, out)
    limits = jobs.Limits(limit, set_up)
    made = jobs.shared(units, count, limits, out) if shared and count else jobs.divided(units, count, limits, out)
    options = _options(overlays, datasets, curator_repo, mark)
    resumes = ["--bench-resume=finished"] if shared else []
    jobs.write_jobs(made, out, asked, [*options, *resumes], is_rest=missing)
    _say_unknown(units, "number" if count and not shared else "timeouts")
    if github:
        click.echo(ci_jobs.github_matrix(made))
    elif gitlab:
        click.echo(ci_jobs.gitlab_pipeline(made, asked.name), nl=False)
    elif made:
        _print(made, asked)
    if missing and units:
        click.get_current_context().exit(1)


def _files_in(places: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """Return the matrices that are named or in folders, and the modules of Python tests in folders."""
    from curator_bench.collection.matrix_files import matrices_in, test_modules_in

    matrices: list[Path] = []
    modules: list[Path] = []
    for place in places:
        matrices += matrices_in([place]) if place.is_dir() else [place]
        modules += test_modules_in(place) if place.is_dir() else []
    return list(dict.fromkeys(matrices)), list(dict.fromkeys(modules))


def _new_session(name: str | None) -> Session:
    from curator_bench.options.settings import session_name_now
    from curator_bench.sharing.jobs import Session
    from curator_bench.store.records import new_uid

    return Session(name or session_name_now(), new_uid())


def _session(named: str | None, database: str) -> Session:
    from curator_bench.cli.databases import reading
    from curator_bench.cli.names import past_sessions
    from curator_bench.sharing.jobs import Session

    with reading(database) as opened, opened.reading() as connection:
        found = past_sessions(connection, named)[-1]
    return Session(found.name, found.uid)


def _say_missing(units: Sequence[Unit], session: Session, database: str, out: Path) -> list[Unit]:
    from curator_bench.cli.databases import reading
    from curator_bench.sharing.jobs import missing
    from curator_bench.store.latest import latest_of_session

    with reading(database) as opened, opened.reading() as connection:
        latest = latest_of_session(connection, session.uid, None)
    found = missing(units, {key: verdict for key, (_, verdict, _) in latest.items()})
    done = f"{len(units) - len(found)} of {tables.how_many(len(units), 'benchmark')}"
    tables.say(f"Session {session.name}: {done} are done", err=True)
    for unit, why in found[:_MOST_SHOWN]:
        tables.say(f"missing: {unit.name} ({why})", err=True)
    if len(found) > _MOST_SHOWN:
        tables.say(f"missing: {len(found) - _MOST_SHOWN:,} more; the files in {out} name all", err=True)
    return [unit for unit, _ in found]


def _options(overlays: Sequence[Path], datasets: Path | None, curator_repo: str | None, mark: str | None) -> list[str]:
    """Return the arguments of every job before its benchmarks."""
    said = [f"--bench-matrix={overlay}" for overlay in overlays]
    said += [f"--bench-datasets={datasets}"] if datasets else []
    said += [f"--bench-curator-repo={curator_repo}"] if curator_repo else []
    return said + (["-m", mark] if mark else [])


def _say_unknown(units: Sequence[Unit], otherwise: str) -> None:
    """Say which durations are not known; `otherwise` is what jobs are divided by if none is."""
    unknown = [unit.name for unit in units if not unit.is_recorded]
    if not unknown:
        return
    what = f"{tables.how_many(len(unknown), 'benchmark has', 'benchmarks have')} no recorded duration"
    if len(unknown) == len(units):
        tables.say(f"{what} yet, so they are divided by their {otherwise}; next time, by how long they took", err=True)
        return
    shown = ", ".join(map(tables.shortened, unknown[:3])) + (", …" if len(unknown) > 3 else "")
    tables.say(f"{what}: an entry counts by its timeout, a module as a minute ({shown})", err=True)


def _print(jobs: Sequence[Job], session: Session) -> None:
    rows = [
        (job.file, f"{len(job.units):,}", _takes(job), tables.seconds(job.timeout_s), _longest(job)) for job in jobs
    ]
    tables.print_table(tables.columns("JOB", ">BENCHMARKS", ">TAKES", ">TIMEOUT", "LONGEST"), rows)
    tables.say(f"Run them: pytest @{jobs[0].file} --benchmark    (session {session.name})")


def _takes(job: Job) -> str:
    """Return how long a job takes, as far as that is known."""
    unknown = len(job.units) - len(job.recorded)
    if not job.recorded:
        return "not known"
    return tables.seconds(job.seconds) + (f" + {unknown:,} not known" if unknown else "")


def _longest(job: Job) -> str:
    return max(job.recorded, key=lambda unit: unit.seconds).name if job.recorded else tables.NOTHING
