"""`curator-bench init`: writes a first matrix, script and conftest to start from."""

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


@click.command("init")
@click.argument("folder", default=".", type=click.Path(path_type=Path, file_okay=False))
def command(folder: Path) -> None:
    """Write a commented matrix, script and conftest into FOLDER. Existing files are never overwritten."""
    there = [name for name in _FILES if (folder / name).exists()]
    if there:
        raise BenchError(f"{folder}: {', '.join(there)} is there already; nothing was written. Name an empty folder.")
    folder.mkdir(parents=True, exist_ok=True)
    for name, what in _FILES.items():
        _write(folder / name)
        click.echo(f"{name:<14} {what}")
    click.echo(f"Run it: {_prefix(folder)}pytest --benchmark")


def _write(file: Path) -> None:
    text = resources.files("curator_bench.cli").joinpath("starter", file.name).read_text("utf-8")
    with file.open("x", encoding="utf-8") as new:
        new.write(text)


def _prefix(folder: Path) -> str:
    return "" if folder == Path() else f"cd {folder} && "
