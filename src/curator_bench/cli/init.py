"""`curator-bench init`: writes a first matrix, script and conftest to start from, or files for a CI system."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

from curator_bench.errors import BenchError

_FILES = {
    "matrix.yaml": "the benchmarks and their requirements",
    "word_count.py": "the program they run",
    "conftest.py": "settings and fixtures of this folder",
}
_NEXT = {
    "github": "Commit them. For the dashboard: Settings > Pages > Source: GitHub Actions, and a variable BENCH_PAGES "
    "with the value true.",
    "gitlab": "Commit it, and add these lines to .gitlab-ci.yml:\n\ninclude:\n  - local: .gitlab/bench.yml\n\n"
    "For the nightly: Build > Pipeline schedules. For comments on merge requests: a variable GITLAB_TOKEN, as the file "
    "says.",
}


@click.command("init")
@click.argument("folder", default=".", type=click.Path(path_type=Path, file_okay=False))
@click.option("--ci", type=click.Choice(["github", "gitlab"]), help="write files for this CI system instead")
@click.option(
    "--benchmarks", default="benchmarks", show_default=True, metavar="FOLDER", help="with --ci: what its jobs run"
)
@click.option("--jobs", type=click.IntRange(1, 200), help="with --ci: divide a nightly into so many jobs")
def command(folder: Path, ci: str | None, benchmarks: str, jobs: int | None) -> None:
    """Write a commented matrix, script and conftest into FOLDER. Existing files are never overwritten.

    With --ci, write files for the git repository that FOLDER is in: a nightly with its dashboard, a gate for pull
    requests, and a comparison of two branches.
    """
    if ci is not None:
        _write_ci(folder, ci, benchmarks, jobs)
        return
    there = [name for name in _FILES if (folder / name).exists()]
    if there:
        raise BenchError(f"{folder}: {', '.join(there)} is there already; nothing was written. Name an empty folder.")
    folder.mkdir(parents=True, exist_ok=True)
    for name, what in _FILES.items():
        _write(folder / name)
        click.echo(f"{name:<14} {what}")
    click.echo(f"Run it: {_prefix(folder)}pytest --benchmark")


def _write_ci(folder: Path, system: str, benchmarks: str, jobs: int | None) -> None:
    from curator_bench.sharing.ci_files import FILES, repository_around

    repository = repository_around(folder, benchmarks, jobs)
    written = repository.write(system)
    for name in written:
        click.echo(f"{name:<{max(map(len, written))}}  {FILES[system][name]}")
    if not (repository.top / repository.benchmarks).exists():
        click.echo(f"There is no {repository.benchmarks} yet. To begin: curator-bench init {repository.benchmarks}")
    click.echo(_NEXT[system])


def _write(file: Path) -> None:
    text = resources.files("curator_bench.cli").joinpath("starter", file.name).read_text("utf-8")
    with file.open("x", encoding="utf-8") as new:
        new.write(text)


def _prefix(folder: Path) -> str:
    return "" if folder == Path() else f"cd {folder} && "
