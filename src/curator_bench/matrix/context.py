"""State of one load: the request, the variables, and the mistakes and warnings found so far."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from curator_bench.errors import Mistake
from curator_bench.masking import Mask
from curator_bench.matrix.tree import Filled, Step, Undefined, leaves, one_line, show_path
from curator_bench.matrix.variables import Variables, unset_message
from curator_bench.values import Place


@dataclass(frozen=True)
class LoadRequest:
    """The files to load and the settings for loading them."""

    files: tuple[Path, ...]
    overlays: tuple[Path, ...] = ()
    datasets_file: Path | None = None
    strict: bool = False
    """Treat any undefined variable as a mistake."""
    variables: Mapping[str, str] = field(default_factory=dict)
    working_dir: Path = field(default_factory=Path.cwd)
    curator_repo: str | None = None
    results_dir: str | None = None
    """Results directory from the command line. It replaces those of the files."""


@dataclass
class Load:
    """State of one load."""

    request: LoadRequest
    variables: Variables
    mistakes: list[Mistake] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    declared: set[str] = field(default_factory=set)
    """Names listed under `secrets` in the files read so far."""
    everything_read: bool = True
    """False if a file could not be read. Unknown names are then not reported, because that file may define them."""

    def mask(self) -> Mask:
        declared = (value for name, value in self.request.variables.items() if name in self.declared)
        return Mask(frozenset([*declared, *self.variables.secrets]))

    def masked(self, mistakes: list[Mistake]) -> list[Mistake]:
        mask = self.mask()
        return [
            Mistake(mistake.place, one_line(mask.hide(mistake.path)), one_line(mask.hide(mistake.problem)))
            for mistake in mistakes
        ]

    def shown(self, path: Path) -> str:
        """Name of a file in messages: relative to the working directory if it lies below."""
        try:
            return str(path.relative_to(self.request.working_dir))
        except ValueError:
            return str(path)

    def shown_file(self, file: str) -> str:
        return self.shown(Path(file))

    def undefined(self, tree: object, here: Place) -> Iterator[tuple[tuple[Step, ...], Place, tuple[str, ...]]]:
        """Yield path, place and variables of every text in the tree that names undefined variables."""
        for path, value, place in leaves(tree, here):
            if isinstance(value, Undefined):
                yield path, place, value.variables
            elif isinstance(value, str) and "${" in value and not isinstance(value, Filled):
                missing = self.variables.missing(value)
                if missing:
                    yield path, place, missing

    def note_unset(self, place: Place, path: str, variables: tuple[str, ...]) -> None:
        self.mistakes.append(Mistake(place, path, unset_message(variables)))

    def unset(self, tree: object, here: Place, above: tuple[Step, ...], root: object) -> tuple[str, ...]:
        """List one problem per text in the tree that names undefined variables."""
        return tuple(
            f"{place}: {show_path(root, above + path)}: {unset_message(variables)}"
            for path, place, variables in self.undefined(tree, here)
        )


def absolute(path: str, place: Place, working_dir: Path) -> str:
    """Make a path of a matrix absolute, relative to the file that contains it. A URL stays as it is."""
    if "://" in path:
        return path
    return os.path.normpath(os.path.join(folder_of(place, working_dir), os.path.expanduser(path)))


def folder_of(place: Place, working_dir: Path) -> str:
    return os.path.dirname(os.path.join(working_dir, place.file))
