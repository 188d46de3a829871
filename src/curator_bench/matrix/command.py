"""The command of an entry: find its script, and fill in all placeholders except the folder of the repeat."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from curator_bench.masking import is_secret_option
from curator_bench.matrix import asv_program, asv_suite, placeholders
from curator_bench.matrix.entry_block import axis_names
from curator_bench.matrix.variables import Variables
from curator_bench.values import Dataset, DatasetNeed, DataSetup, Entry, Generate, MatrixFile, SetupNeed


@dataclass(frozen=True, slots=True)
class Command:
    """Command line of an entry, complete except for `{session_entry_dir}`."""

    python: str
    script: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    datasets: tuple[DatasetNeed, ...]
    data_setups: tuple[SetupNeed, ...]
    secrets: frozenset[str]
    problems: tuple[str, ...]
    gpu_check: str | None = None
    skip_code: int | None = None
    """Exit code by which the script says that it cannot run here."""


def command_of(entry: Entry, variables: Mapping[str, str]) -> Command:
    """Build the command of one entry in this environment. `problems` lists what keeps it from running."""
    filler = _Filler(entry.file, Variables(variables, entry.secrets), axis_names(entry.axes))
    script, missing = find_script(filler.fill_names(entry.script), entry.script_base_dir, entry.directories)
    words = entry.args
    if entry.asv:
        script, words = str(asv_suite.PROGRAM), (os.path.relpath(entry.asv, entry.file.directory), *words)
    gpu_check: str | None = None
    no_check: tuple[str, ...] = ()
    if entry.gpu_check:
        gpu_check, no_check = find_script(filler.fill_names(entry.gpu_check), entry.script_base_dir, entry.directories)
    needs = [dataset for dataset in entry.file.datasets.values() if is_named(dataset, entry)]
    env = {name: filler.fill(value) for name, value in entry.env.items()}
    setups = tuple(_setup(setup, entry.file, filler) for setup in entry.file.data_setups)
    args = tuple(filler.fill(word) for word in words)
    datasets = tuple(_need(dataset, entry.file, filler) for dataset in needs)
    commands = (args, *(need.command for need in datasets), *(need.command for need in setups))
    is_secret = filler.variables.is_secret
    by_name = {value for e in (env, *(s.env for s in setups)) for name, value in e.items() if is_secret(name)}
    by_option = {value for words in commands for value in _secrets_in(words)}
    return Command(
        python=filler.fill_names(entry.python) if entry.python else sys.executable,
        script=script,
        args=args,
        env=env,
        datasets=datasets,
        data_setups=setups,
        secrets=frozenset(filler.variables.secrets | by_name | by_option),
        problems=(*entry.problems, *missing, *no_check),
        gpu_check=gpu_check,
        skip_code=asv_program.SKIPPED if entry.asv else None,
    )


def _secrets_in(words: Sequence[str]) -> Iterator[str]:
    """Yield the values of options with secret names, as in `--api-key X` and `--password=X`."""
    for word, following in itertools.zip_longest(words, words[1:], fillvalue=""):
        name, equals, value = word.partition("=")
        if name.startswith("-") and is_secret_option(name) and (equals or not following.startswith("--")):
            yield value if equals else following


def dataset_need(dataset: Dataset, file: MatrixFile, variables: Mapping[str, str]) -> DatasetNeed:
    """Describe how to provide one dataset, for callers without an entry."""
    return _need(dataset, file, _Filler(file, Variables(variables), {}))


class _Filler:
    """Fill in everything that is known before a run has a folder."""

    def __init__(self, file: MatrixFile, variables: Variables, own: Mapping[str, str]) -> None:
        self.variables = variables
        self._names = {**file.paths, placeholders.REPO_DIR: file.curator_repo_dir, **own}
        self._datasets = file.datasets

    def fill_names(self, text: str) -> str:
        """Fill in the placeholders of a text whose variables are filled in already."""
        return placeholders.fill(text, names=self._names, dataset=self._path_of)

    def fill(self, text: str, **also: str) -> str:
        names = {**self._names, **also} if also else self._names
        return placeholders.fill(text, names=names, dataset=self._path_of, variables=self.variables)

    def _path_of(self, dataset: placeholders.Dataset) -> str | None:
        found = self._datasets.get(dataset)
        return found.path if found else None


def find_script(script: str, base: str | None, directories: Iterable[str], *others: str) -> tuple[str, tuple[str, ...]]:
    """Find the script in script_base_dir, beside one of its files, or in scripts/; return its path, and the problem if
    it is missing."""
    script = os.path.expanduser(script)
    below = ("", "scripts", *others)
    folders = [*([base] if base else []), *(os.path.join(folder, name) for folder in directories for name in below)]
    candidates = [os.path.normpath(os.path.join(folder, script)) for folder in folders]
    for candidate in candidates:
        if os.path.isfile(candidate):
            return candidate, ()
    looked = ", ".join(dict.fromkeys(candidates))
    return candidates[0], (f"the script {script!r} was not found; looked for {looked}",)


def is_named(dataset: Dataset, entry: Entry) -> bool:
    """True if the entry's command line or environment names this dataset."""
    texts = (*entry.args, entry.script, *entry.env.values())
    return any(
        (dataset.name, dataset.format) in placeholders.datasets_in(text) for text in texts if "{dataset:" in text
    )


def _need(dataset: Dataset, file: MatrixFile, filler: _Filler) -> DatasetNeed:
    if dataset.generate is None:
        return DatasetNeed(dataset.name, dataset.format, dataset.path)
    folder = dataset_dir(dataset, file.datasets.values())
    return DatasetNeed(
        dataset.name,
        dataset.format,
        dataset.path,
        folder,
        _generate_command(dataset.generate, folder, filler),
        dataset.generate.timeout_s,
    )


def dataset_dir(dataset: Dataset, all_datasets: Iterable[Dataset]) -> str:
    """Folder for `{dataset_dir}`: the path of a dataset's only format, or the folder that all its formats share."""
    paths = {other.path for other in all_datasets if other.name == dataset.name}
    split = [path.split("/") for path in paths]
    shared = itertools.takewhile(lambda parts: len(set(parts)) == 1, zip(*split, strict=False))
    return "/".join(parts[0] for parts in shared) or "/"


def _generate_command(generate: Generate, folder: str, filler: _Filler) -> tuple[str, ...]:
    script, _ = find_script(filler.fill_names(generate.script), None, generate.directories)
    words = (filler.fill(word, **{placeholders.DATASET_DIR: folder}) for word in generate.args)
    return (sys.executable, script, *words)


def _setup(setup: DataSetup, file: MatrixFile, filler: _Filler) -> SetupNeed:
    script, missing = find_script(
        filler.fill_names(setup.script), setup.script_base_dir, setup.directories, "data_prep"
    )
    words = (filler.fill(word) for word in setup.args)
    env = {name: filler.fill(value) for name, value in setup.env.items()}
    return SetupNeed(setup.name, (sys.executable, script, *words), setup.timeout_s, env, (*setup.problems, *missing))
