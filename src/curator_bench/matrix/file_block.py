"""Read everything in a matrix file except its entries: paths, datasets, data setups, sinks, defaults."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from curator_bench.errors import Mistake
from curator_bench.files.checkouts import first_source
from curator_bench.files.containers import is_mounted
from curator_bench.matrix import placeholders
from curator_bench.matrix.context import Load, absolute, folder_of
from curator_bench.matrix.known_names import KnownNames
from curator_bench.matrix.scalars import describe
from curator_bench.matrix.schema import DatasetBlock, DataSetupBlock, FileBlock, GenerateBlock, as_text
from curator_bench.matrix.tree import Block, Items, Step, Undefined, place_of, show_path
from curator_bench.matrix.validation import checked, plain
from curator_bench.values import Dataset, DataSetup, Generate, MatrixFile, Place, SinkSettings, Subject

DEFAULT_TIMEOUT_S = 7200.0
_MADE_UP_MOUNT = "/MOUNT"
_ESCAPED = re.compile(r"\\[\s\S]")
_QUOTED_OR_ESCAPED = re.compile(r"""'[^']*'|"(?:[^"\\]|\\[\s\S])*"|\\[\s\S]""")
_WORD = re.compile(r"[^ \t\r\n]+")

# If one of these names an undefined variable, no entry of the file can run.
_NEEDED_BY_ENTRIES = (
    *("results_dir", "artifacts_dir", "script_base_dir", "marks", "env", "default_timeout_s", "timeout_s"),
    *("max_timeout_s", "delete_scratch", "object_store_size", "gpu_mem_use_warning_threshold"),
)
# If one of these does, the key is left out with a warning.
_NOT_NEEDED = (
    *("run_reason", "viewer_url", "viewer_url_template", "subjects", "gpu_stats_recorder"),
    *("cleanup_timeout_s", "min_timeout_s"),
)


class FileReader:
    """Reader of one merged and pruned tree into a MatrixFile. Mistakes are added to `load.mistakes`."""

    def __init__(self, path: Path, tree: Block, load: Load, *, records_gpus: bool = True) -> None:
        self._path = path
        self._tree = _without_anchor_holders(tree)
        self._load = load
        self._records_gpus = records_gpus
        self._here = Place(load.shown(path), 0)
        self.names = KnownNames(repo_dir=self._repo_dir())
        self.block = FileBlock()
        self.broken: set[str] = set()
        """Keys whose values have mistakes. The rest of the file is read as if they were absent."""
        self.problems: tuple[str, ...] = ()
        """Problems that keep every entry of the file from running."""
        self.script_base_dir: str | None = None

    def read(self) -> MatrixFile:
        self._tell_undefined()
        self.block = self._validated()
        for key in ("paths", "datasets", "data_setups"):
            if self._tree.get(key) and not getattr(self.block, key) and key not in self.broken:
                self.problems += self._unset_in(key)
        everything = self._load.everything_read
        self.names.all_paths = everything and bool(self.block.paths or not self._tree.get("paths"))
        self.names.all_datasets = everything and bool(self.block.datasets or not self._tree.get("datasets"))
        for key in ("paths", "datasets", "data_setups", "sinks"):
            self._check_unique(key)
        mounts = tuple(self._read_paths())
        self.names.datasets = self._read_datasets()
        self.script_base_dir = self._directory("script_base_dir")
        self._check_env()
        block = self.block
        return MatrixFile(
            file=str(self._path),
            directory=str(self._path.parent),
            results_dir=self._results_dir(),
            artifacts_dir=self._directory("artifacts_dir"),
            curator_repo_dir=self.names.repo_dir,
            paths=self.names.paths,
            path_problems=self.names.path_problems,
            mounts=mounts,
            datasets=self.names.datasets,
            data_setups=tuple(self._data_setup(index, item) for index, item in enumerate(block.data_setups)),
            sinks=tuple(self._sinks()),
            subjects=tuple(dict.fromkeys(Subject(s if isinstance(s, str) else s.package) for s in block.subjects)),
            gpu_stats_interval_s=block.gpu_stats_recorder.interval_s if self._records_gpus else 0.0,
            gpu_stats_asked="gpu_stats_recorder" in block.model_fields_set,
            run_reason=block.run_reason,
            viewer_url=block.viewer_url,
            viewer_url_template=block.viewer_url_template,
            cleanup_timeout_s=block.cleanup_timeout_s,
            min_timeout_s=block.min_timeout_s,
        )

    def _tell_undefined(self) -> None:
        """Report undefined variables.

        With `strict` each is a mistake; otherwise it affects only the keys and entries that use it.
        """
        if self._load.request.strict:
            for path, place, variables in self._load.undefined(self._tree, self._here):
                self._load.note_unset(place, show_path(self._tree, path), variables)
        left_out = (*_NOT_NEEDED, "sinks") if isinstance(self._tree.get("sinks"), Undefined) else _NOT_NEEDED
        for key in left_out:
            if problems := self._unset_in(key):
                self._load.warnings.append(f"{'; '.join(problems)}; it is left out")
                self._tree.take(key)
        for key in _NEEDED_BY_ENTRIES:
            if key != "results_dir" or not self._load.request.results_dir:
                self.problems += self._unset_in(key)

    def _unset_in(self, key: str) -> tuple[str, ...]:
        if key not in self._tree:
            return ()
        return self._load.unset(self._tree[key], self._tree.places[key], (key,), self._tree)

    def _validated(self) -> FileBlock:
        """Validate the file without its entries and without the keys that have mistakes."""
        tree = self._tree.copy()
        tree.pop("entries", None)
        while True:
            block, problems = checked(FileBlock, tree)
            if block is not None:
                return block
            for path, problem in problems.items():
                self._wrong(path, problem)
                self.broken.add(str(path[0]))
                tree.pop(str(path[0]), None)

    def _wrong(self, path: tuple[Step, ...], problem: str) -> None:
        place = place_of(self._tree, path, self._here)
        self._load.mistakes.append(Mistake(place, show_path(self._tree, path), problem))

    def _check_unique(self, key: str) -> None:
        seen: dict[str, Place] = {}
        for index, item, place in self._items(key):
            if key == "sinks":
                self._check_sink_name(index, item)
            name = as_text(item.get("name"))
            if not isinstance(name, str):
                continue
            if name in seen:
                self._wrong((key, index), f"the name {name!r} is already used at {seen[name]}")
            seen.setdefault(name, place)

    def _check_sink_name(self, index: int, sink: Block) -> None:
        if "name" not in sink:
            self._wrong(("sinks", index, "name"), "is missing")
        elif not isinstance(as_text(sink["name"]), str):
            self._wrong(("sinks", index, "name"), f"found {describe(sink['name'])}, expected text")

    def _items(self, key: str) -> Iterator[tuple[int, Block, Place]]:
        items = self._tree.get(key)
        if isinstance(items, Items):
            for index, item in enumerate(items):
                if isinstance(item, Block):
                    yield index, item, items.places[index]

    def _results_dir(self) -> str | None:
        if self._load.request.results_dir:
            return None
        return self._directory("results_dir") or self.names.paths.get("results_path")

    def _directory(self, key: str) -> str | None:
        text: str | None = getattr(self.block, key)
        if text is None or isinstance(self._tree[key], Undefined):
            return None
        directory, problems = self.path_of(text, self._tree.places[key], (key,))
        self.problems += problems
        return directory

    def path_of(self, text: str, place: Place, where: tuple[Step, ...]) -> tuple[str, tuple[str, ...]]:
        """Make a path of the file absolute, with placeholders filled in; return it with the problems met."""
        for mistake in self.names.mistakes_in(text, ()):
            self._wrong(where, mistake)
        problems = tuple(f"{place}: {problem}" for problem in self.names.problems_in(text))
        return absolute(self.names.fill(text), place, self._load.request.working_dir), problems

    def _repo_dir(self) -> str:
        request = self._load.request
        given = request.curator_repo or request.variables.get("CURATOR_REPO_DIR")
        if given:
            return str(request.working_dir / given)
        trees = (first_source(file.parents) for file in (self._path, *request.overlays))
        return str(next(filter(None, trees), ""))

    def directories_of(self, script: Place) -> tuple[str, ...]:
        """Return the folders a script may lie in or below: those of the file that names it, and of the matrix."""
        return tuple(dict.fromkeys([folder_of(script, self._load.request.working_dir), str(self._path.parent)]))

    def _read_paths(self) -> Iterator[tuple[str, str]]:
        for index, item in enumerate(self.block.paths):
            tree = self._tree["paths"][index]
            place = tree.places["host_path"]
            host, problems = self.path_of(item.host_path, place, ("paths", index, "host_path"))
            problems = self._load.unset(tree, place, ("paths", index), self._tree) or problems
            if problems:
                self.names.path_problems[item.name] = problems[0]
                continue
            container = item.container_path or _MADE_UP_MOUNT + host
            is_inside = is_mounted(container, self._load.request.variables)
            self.names.paths[item.name] = container if is_inside else host
            yield host, container

    def _read_datasets(self) -> dict[tuple[str, str], Dataset]:
        datasets: dict[tuple[str, str], Dataset] = {}
        for index, item in enumerate(self.block.datasets):
            generate = self._generate(index, item.generate)
            for number, form in enumerate(item.formats):
                if (item.name, form.type) in datasets:
                    self._wrong(("datasets", index, "formats", number), f"the format {form.type!r} is written twice")
                datasets[item.name, form.type] = self._dataset(index, number, item, generate)
        return datasets

    def _dataset(self, index: int, number: int, item: DatasetBlock, generate: Generate | None) -> Dataset:
        where: tuple[Step, ...] = ("datasets", index, "formats", number)
        form = item.formats[number]
        tree = self._tree["datasets"][index]
        place = tree["formats"][number].places["path"]
        path, problems = self.path_of(form.path, place, (*where, "path"))
        unset = self._load.unset(tree["formats"][number], place, where, self._tree)
        if "generate" in tree:
            unset += self._load.unset(tree["generate"], place, ("datasets", index, "generate"), self._tree)
        return Dataset(item.name, form.type, path, place, generate, unset + problems)

    def _generate(self, index: int, block: GenerateBlock | None) -> Generate | None:
        if block is None:
            return None
        where = ("datasets", index, "generate")
        words = self.words(block.args, (*where, "args"))
        self.check_texts(words, (*where, "args"), placeholders.DATASET_DIR)
        self.check_texts([block.script], (*where, "script"))
        script = self._tree["datasets"][index]["generate"].places["script"]
        return Generate(block.script, words, block.timeout_s, self.directories_of(script))

    def words(self, args: str, where: tuple[Step, ...]) -> tuple[str, ...]:
        try:
            return split(args)
        except ValueError as error:
            self._wrong(where, f"bad shell quoting: {str(error).lower()}")
            return ()

    def check_texts(self, texts: tuple[str, ...] | list[str], where: tuple[Step, ...], *also: str) -> tuple[str, ...]:
        """Report the mistakes of texts that are filled in later; return the problems that keep them from being filled
        in."""
        for text in texts:
            for mistake in self.names.mistakes_in(text, also):
                self._wrong(where, mistake)
        return tuple(dict.fromkeys(problem for text in texts for problem in self.names.problems_in(text)))

    def _check_env(self) -> None:
        for name, value in self.block.env.items():
            also = (placeholders.ENTRY_DIR, placeholders.OLD_ENTRY_DIR)
            self.problems += self.check_texts([value], ("env", name), *also)

    def _data_setup(self, index: int, item: DataSetupBlock) -> DataSetup:
        where: tuple[Step, ...] = ("data_setups", index)
        tree, place = self._tree["data_setups"][index], self._tree["data_setups"].places[index]
        words = self.words(item.args, (*where, "args"))
        problems = self._load.unset(tree, place, where, self._tree)
        problems += self.check_texts(words, (*where, "args")) + self.check_texts([item.script], (*where, "script"))
        for name, value in item.env.items():
            problems += self.check_texts([value], (*where, "env", name))
        base = self.script_base_dir
        if item.script_base_dir is not None:
            key = "script_base_dir"
            base, base_problems = self.path_of(item.script_base_dir, tree.places[key], (*where, key))
            problems += base_problems
        timeout = item.timeout_s or self.block.default_timeout_s or self.block.timeout_s or DEFAULT_TIMEOUT_S
        env = {**self.block.env, **item.env}
        directories = self.directories_of(tree.places["script"])
        return DataSetup(item.name, item.script, base, words, timeout, env, place, problems, directories)

    def _sinks(self) -> Iterator[SinkSettings]:
        for index, item, place in self._items("sinks"):
            settings: dict[str, Any] = plain(item)
            name = str(as_text(settings.pop("name", "")))
            settings.pop("enabled", None)
            problems = self._load.unset(item, place, ("sinks", index), self._tree)
            if problems:
                self._load.warnings.append(f"the sink {name} is off: {'; '.join(problems)}")
            unset = {str(path[0]) for path, *_ in self._load.undefined(item, place)}
            kept = {key: value for key, value in settings.items() if key not in unset}
            yield SinkSettings(name, kept, place, problems, dict(item.places), frozenset(unset))


def _without_anchor_holders(tree: Block) -> Block:
    """Remove unknown top-level keys with an anchor. They exist only to be referred to."""
    tree = tree.copy()
    for key in tree.anchored - set(FileBlock.model_fields):
        if key in tree:
            tree.take(key)
    return tree


def split(args: str) -> tuple[str, ...]:
    """Split a command line by shell rules. Variables and placeholders stay in the words."""
    if "{dataset:" in args:
        args = _close_up_datasets(args)
    if not any(character in args for character in "'\"\\"):
        return tuple(_WORD.findall(args))
    return tuple(shlex.split(_join_lines(args)))


def _join_lines(args: str) -> str:
    """Join lines that end with a backslash, as a shell does, except within single quotes."""

    def joined(match: re.Match[str]) -> str:
        return (
            match[0] if match[0][0] == "'" else _ESCAPED.sub(lambda escaped: escaped[0].removeprefix("\\\n"), match[0])
        )

    return _QUOTED_OR_ESCAPED.sub(joined, args) if "\\\n" in args else args


def _close_up_datasets(args: str) -> str:
    """Remove the blanks in `{dataset: name, format}`, so that it stays one word."""
    for name, form in list(placeholders.raw_datasets_in(args)):
        args = args.replace(f"{{dataset:{name},{form}}}", f"{{dataset:{name.strip()},{form.strip()}}}")
    return args
