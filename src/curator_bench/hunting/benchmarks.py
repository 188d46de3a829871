"""The matrices that a pytest would run, and their entries."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from curator_bench.collection.matrix_files import matrices_in
from curator_bench.errors import BenchError

if TYPE_CHECKING:
    from curator_bench.values import Entry

_FOLDERS = ("benchmarks", ".")


def entries_of(pytest_args: Sequence[str], folder: Path) -> list[Entry]:
    """Return the entries that pytest with these arguments would run in the folder, as far as they can be read."""
    from curator_bench.matrix import LoadRequest, load

    named = [place for word in pytest_args if (place := folder / word.partition("::")[0]).exists()]
    files = sorted(set(matrices_in(named or [folder]))) if pytest_args else matrices_here(folder)
    with suppress(BenchError):
        return list(load(LoadRequest(files=tuple(files), working_dir=folder)).entries) if files else []
    return []


def matrices_here(folder: Path) -> list[Path]:
    """Return the matrices in the first folder that has any. The second one contains the first."""
    found = (sorted(set(matrices_in([folder / name]))) for name in _FOLDERS)
    return next(filter(None, found), [])
