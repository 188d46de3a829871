"""`curator-bench paths`: prints the directories of matrices, here and in a container. `ci/run.sh` mounts them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from curator_bench.cli.loading import load_files, overlay_option
from curator_bench.cli.tables import columns, print_table
from curator_bench.collection.matrix_files import matrices_in
from curator_bench.errors import BenchError
from curator_bench.matrix.placeholders import REPO_DIR
from curator_bench.matrix.variables import PATTERN
from curator_bench.values import Matrix

_REFERENCE = re.compile(PATTERN)
_NAME = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")


@click.command("paths")
@click.argument("places", nargs=-1, type=click.Path(path_type=Path, exists=True))
@overlay_option
@click.option("--docker", is_flag=True, help="print options for `docker run`, one per line; create missing folders")
def command(places: tuple[Path, ...], overlays: tuple[Path, ...], docker: bool) -> None:
    """Print the directories that the matrices in PLACES (files or folders) name, here and in a container."""
    files = sorted(set(matrices_in(places)))
    matrix = load_files(files, overlays)
    mounts = dict(_mounts(matrix))
    if docker:
        mounts |= {tree: tree for tree in _source_trees(matrix, [*files, *overlays])}
        click.echo("".join(f"{option}\n" for option in _docker_options(mounts, [*files, *overlays])), nl=False)
    else:
        print_table(columns("HERE", "IN A CONTAINER"), list(mounts.items()))


def _mounts(matrix: Matrix) -> Iterator[tuple[str, str]]:
    """Yield pairs of a directory here and in the container. A directory not among `paths` has the same name in both."""
    for file in matrix.files:
        yield from file.mounts
        for directory in (file.results_dir, file.artifacts_dir):
            if directory and not any(_lies_in(directory, host) for host, _ in file.mounts):
                yield directory, directory


def _source_trees(matrix: Matrix, files: Iterable[Path]) -> Iterator[str]:
    """Yield the values of {curator_repo_dir}, if any of the files uses it."""
    if any("{" + REPO_DIR + "}" in _text(file) for file in files):
        yield from (file.curator_repo_dir for file in matrix.files if file.curator_repo_dir)


def _text(file: Path) -> str:
    return file.read_text("utf-8", errors="replace")


def _lies_in(directory: str, parent: str) -> bool:
    return Path(directory).is_relative_to(parent)


def _docker_options(mounts: dict[str, str], files: Iterable[Path]) -> Iterator[str]:
    for host, container in mounts.items():
        if ":" in host + container:
            raise BenchError(f"{host}: docker cannot mount a path with a colon in it")
        # Docker would make the folder as root.
        os.makedirs(host, exist_ok=True)
        yield f"--volume={host}:{container}"
    for name in sorted(set(_variables(files))):
        # The name alone, so that the value is on no command line.
        yield f"--env={name}"


def _variables(files: Iterable[Path]) -> Iterator[str]:
    """Yield the variables the files refer to, also in defaults, that are set here."""
    for file in files:
        for reference in _REFERENCE.finditer(_text(file)):
            yield from (name for name in _NAME.findall(reference[0]) if name in os.environ)
