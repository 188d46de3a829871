"""`curator-bench command`: prints the command line of an entry, to run by hand."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from curator_bench.cli.loading import datasets_option, find_entry, load_files, overlay_option, repo_option
from curator_bench.errors import BenchError
from curator_bench.matrix import command_of
from curator_bench.matrix.placeholders import fill_entry_dir

RESULTS_OPTION = "--benchmark-results-path"


@click.command("command")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("entry")
@overlay_option
@datasets_option
@repo_option
@click.option("--dir", "directory", default="manual_run", show_default=True, help="value of {session_entry_dir}")
def command(
    file: Path, entry: str, overlays: tuple[Path, ...], datasets: Path | None, curator_repo: str | None, directory: str
) -> None:
    """Print the command line of ENTRY in FILE, with secrets masked."""
    matrix = load_files([file], overlays, datasets, curator_repo)
    found = find_entry(matrix, entry)
    filled = command_of(found, os.environ)
    mask = matrix.mask.also(filled.secrets)
    if filled.problems:
        raise BenchError("\n".join(f"{found.id}: {mask.hide(problem)}" for problem in filled.problems))
    folder = os.path.abspath(directory)
    words = [fill_entry_dir(word, folder) for word in filled.args]
    if not any(word == RESULTS_OPTION or word.startswith(RESULTS_OPTION + "=") for word in words):
        words += [RESULTS_OPTION, os.path.join(folder, "benchmark_results")]
    env = [f"{name}={shlex.quote(mask.hide(value))}" for name, value in filled.env.items()]
    click.echo(" ".join([*env, shlex.join(map(mask.hide, [filled.python, filled.script, *words]))]))
