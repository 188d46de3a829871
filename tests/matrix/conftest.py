"""What the tests of the matrix room share: a folder to write matrix files into, and to load them from."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from curator_bench.errors import MatrixError
from curator_bench.matrix import LoadRequest, load
from curator_bench.matrix.tree import Block, Items
from curator_bench.values import Entry, Matrix, Place


class Folder:
    """A folder of matrix files; its user stands in it, with no environment variables but those a test gives."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, text: str | bytes, name: str = "matrix.yaml") -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode())
        return file

    def load(
        self,
        *files: str | bytes | Path,
        overlays: tuple[str | Path, ...] = (),
        variables: Mapping[str, str] | None = None,
        **circumstances: Any,
    ) -> Matrix:
        """Loads files, or texts, which are written to matrix.yaml, matrix_2.yaml, … and overlay.yaml, …"""
        request = LoadRequest(
            files=tuple(self._as_files("matrix", files)),
            overlays=tuple(self._as_files("overlay", overlays)),
            variables=variables or {},
            working_dir=self.path,
            **circumstances,
        )
        return load(request)

    def entry(self, text: str, **circumstances: Any) -> Entry:
        """The only entry of a file."""
        (entry,) = self.load(text, **circumstances).entries
        return entry

    def mistakes(self, *files: str | bytes | Path, **circumstances: Any) -> list[str]:
        """The mistakes loading gives, one text each; empty when it gives none."""
        try:
            self.load(*files, **circumstances)
        except MatrixError as error:
            return [str(mistake) for mistake in error.mistakes]
        return []

    def _as_files(self, stem: str, given: tuple[str | bytes | Path, ...]) -> Iterator[Path]:
        for number, file in enumerate(given, 1):
            name = f"{stem}.yaml" if number == 1 else f"{stem}_{number}.yaml"
            yield file if isinstance(file, Path) else self.write(file, name)


Tree = Callable[..., Any]


@pytest.fixture(scope="session")
def tree() -> Tree:
    """Turns ordinary dicts and lists into what reading gives; every part stands on a line of its own."""

    def build(value: Any, file: str = "base.yaml", lines: Iterator[int] | None = None) -> Any:
        lines = lines or itertools.count(1)
        if isinstance(value, dict):
            block = Block()
            for key, inner in value.items():
                block.put(key, build(inner, file, lines), Place(file, next(lines)))
            return block
        if isinstance(value, list):
            items = Items()
            for inner in value:
                items.add(build(inner, file, lines), Place(file, next(lines)))
            return items
        return value

    return build


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)
