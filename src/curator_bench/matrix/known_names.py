"""The names that placeholders may use, and the mistakes of texts that use others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from curator_bench.matrix import placeholders
from curator_bench.matrix.placeholders import REPO_DIR, nearest
from curator_bench.values import Dataset

NO_REPO = "{curator_repo_dir}: the matrix is in no git checkout or Python project; pass --bench-curator-repo"


@dataclass
class KnownNames:
    """The paths and datasets of one file, filled in step by step while the file is read."""

    repo_dir: str = ""
    paths: dict[str, str] = field(default_factory=dict)
    path_problems: dict[str, str] = field(default_factory=dict)
    datasets: Mapping[tuple[str, str], Dataset] = field(default_factory=dict)
    all_paths: bool = True
    """False if a mistake hides some paths. Unknown names are then not reported."""
    all_datasets: bool = True

    def fill(self, text: str) -> str:
        return placeholders.fill(text, names={**self.paths, REPO_DIR: self.repo_dir})

    def mistakes_in(self, text: str, also: Collection[str]) -> list[str]:
        """List the unknown names in the text. `also` holds further names that only this text may use."""
        if "{" not in text:
            return []
        known = {*also, *self.paths, *self.path_problems, REPO_DIR}
        wrong = [
            f"unknown placeholder {{{name}}}{nearest(name, known - {placeholders.OLD_ENTRY_DIR})}"
            for name in placeholders.names_in(text)
            if name not in known and self.all_paths
        ]
        return wrong + [
            f"found {found}, expected {{dataset:NAME,FORMAT}}" for found in placeholders.unfinished_datasets_in(text)
        ]

    def _unknown_dataset(self, name: str, form: str) -> str:
        formats = [known_form for known_name, known_form in self.datasets if known_name == name]
        if formats:
            return f"the dataset {name!r} has no format {form!r}{nearest(form, formats)}"
        return f"unknown dataset {name!r}{nearest(name, [known for known, _ in self.datasets])}"

    def problems_in(self, text: str, own: Collection[str] = ()) -> list[str]:
        """List the problems of a valid text whose names have no value here.

        A dataset that this machine's matrix does not define is one: it keeps only those from running that ask for it.
        """
        if "{" not in text:
            return []
        problems: list[str] = []
        for name in placeholders.names_in(text):
            if name in own:
                continue
            if name in self.path_problems:
                problems.append(self.path_problems[name])
            if name == REPO_DIR and not self.repo_dir:
                problems.append(NO_REPO)
        for dataset in placeholders.datasets_in(text):
            known = self.datasets.get(dataset)
            if known is not None:
                problems += known.problems
            elif self.all_datasets:
                problems.append(self._unknown_dataset(*dataset))
        return problems
