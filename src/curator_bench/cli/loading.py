"""Options and functions of subcommands that load matrix files as pytest does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from curator_bench.errors import BenchError
from curator_bench.matrix import LoadRequest, load
from curator_bench.values import Entry, Matrix

overlay_option = click.option(
    "--overlay", "overlays", multiple=True, type=click.Path(path_type=Path), help="lay this file over each matrix"
)
datasets_option = click.option("--datasets", type=click.Path(path_type=Path), help="file with the paths of datasets")
repo_option = click.option("--curator-repo", help="value of {curator_repo_dir}")


def load_files(
    files: Sequence[Path], overlays: Sequence[Path] = (), datasets: Path | None = None, curator_repo: str | None = None
) -> Matrix:
    return load(
        LoadRequest(
            files=tuple(Path(os.path.abspath(file)) for file in files),
            overlays=tuple(Path(os.path.abspath(file)) for file in overlays),
            datasets_file=Path(os.path.abspath(datasets)) if datasets else None,
            variables=os.environ,
            curator_repo=curator_repo,
        )
    )


def find_entry(matrix: Matrix, name: str) -> Entry:
    """Return the entry with this name or id. An entry with several combinations needs its id."""
    found = [entry for entry in matrix.entries if entry.id == name] or [e for e in matrix.entries if e.name == name]
    if len(found) == 1:
        return found[0]
    known = [entry.id for entry in (found or matrix.entries)]
    problem = f"{name!r} has {len(found)} combinations; name one of" if found else f"no entry {name!r}; there are"
    raise BenchError(f"{problem}: {', '.join(known[:40])}{', …' if len(known) > 40 else ''}")
