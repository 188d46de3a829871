"""Collects matrices: which files they are, items with their ids and marks, and the backstop timeout.

Every pytest start imports this module, and most have no matrix. So modules that only a matrix needs are imported in
functions.
"""

from __future__ import annotations

import functools
import gc
import inspect
import os
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from curator_bench.errors import BenchError
from curator_bench.matrix_files import SUFFIXES, files_below, is_matrix
from curator_bench.options import Settings, read_settings

if TYPE_CHECKING:
    from curator_bench.masking import Mask
    from curator_bench.matrix import LoadRequest
    from curator_bench.values import Entry, Matrix, RunRecord, RunResult

_WORKER_INPUT = "curator_bench"
REPORT = "curator_bench_report"
"""The name of the plugin that shows runs, in the controller."""
# The time a run may take beside its script: starting and stopping a cluster per execution, and making datasets.
_SLACK_PER_EXECUTION_S = 60
_SET_UP_S = 600
_MANY_ENTRIES = 1_000


class Benchmarks:
    """The benchmarks of one pytest process: the settings, and the matrix its controller loaded."""

    def __init__(self, settings: Settings, matrix: Matrix | None) -> None:
        self.settings = settings
        self.loaded = matrix
        """None if the arguments name no matrix, as in projects that do not use this plugin."""
        self.files = matrix.files if matrix else ()
        """The matrix files, also those whose entries are left out: Python benchmarks use their datasets."""
        self.is_asked_for = True
        """False if nothing asks for the entries. They then run only if nothing else was collected."""
        self.mistakes = ""
        """Mistakes in matrices that nothing asks for. Such matrices are not loaded."""
        self.problems: list[str] = []
        """Problems of Python benchmarks that name a matrix. They become a usage error after collection."""
        self.done: frozenset[str] = frozenset()
        """Ids of entries that --bench-resume skips."""
        self.doubted: frozenset[str] = frozenset()
        """Uids of runs that look done but are run again."""
        self._others: dict[Path, Matrix] = {}
        self._by_file: dict[str, list[Entry]] = {file.file: [] for file in matrix.files} if matrix else {}
        for entry in matrix.entries if matrix else ():
            self._by_file[entry.file.file].append(entry)

    @property
    def matrix(self) -> Matrix:
        """The loaded matrix; an empty one if none was loaded."""
        if self.loaded is None:
            from curator_bench.values import Matrix

            self.loaded = Matrix()
        return self.loaded

    def entries_of(self, path: Path) -> list[Entry]:
        """Return the entries of a collected file, or of a file that only a Python benchmark names."""
        if str(path) in self._by_file:
            return self._by_file[str(path)]
        if path not in self._others:
            self._others[path] = _load(self.settings, [path])
        return list(self._others[path].entries)

    @functools.cached_property
    def mask(self) -> Mask:
        """The secrets that this process knows, from the matrix and its environment."""
        from curator_bench.masking import Mask, secrets_in

        named = self.loaded.mask if self.loaded else Mask()
        return named.also(secrets_in(os.environ))

    @property
    def session_dir(self) -> Path:
        """RESULTS/SESSION. RESULTS is --bench-results, or that of the matrices, or ./results."""
        said = [file.results_dir for file in self.matrix.files if file.results_dir]
        results = self.settings.results_dir or (said[0] if said else self.settings.working_dir / "results")
        return Path(results) / self.settings.session

    def has(self, path: Path) -> bool:
        return str(path) in self._by_file


BENCHMARKS = pytest.StashKey[Benchmarks]()


def load_benchmarks(session: pytest.Session) -> None:
    """Load every matrix the arguments name, in the controller. A worker takes over what the controller loaded."""
    config = session.config
    handed = getattr(config, "workerinput", {}).get(_WORKER_INPUT)
    benchmarks = _handed_over(handed) if handed is not None else _read_benchmarks(session)
    config.stash[BENCHMARKS] = benchmarks
    entries = benchmarks.loaded.entries if benchmarks.loaded else ()
    for mark in sorted({mark for entry in entries for mark in entry.marks}):
        config.addinivalue_line("markers", f"{mark}: benchmarks whose matrix marks them so")


def _read_benchmarks(session: pytest.Session) -> Benchmarks:
    config = session.config
    settings = read_settings(config)
    files = find_matrices(session, settings)
    try:
        matrix = _load(settings, files) if files else None
    except BenchError as error:
        if settings.asks:
            raise
        benchmarks = Benchmarks(settings, None)
        benchmarks.mistakes, benchmarks.is_asked_for = str(error), False
        return benchmarks
    _check_names(settings.entries, matrix.entries if matrix else ())
    benchmarks = Benchmarks(settings, matrix)
    if matrix is not None and not settings.asks:
        benchmarks.is_asked_for = any(is_chosen(config, entry) for entry in matrix.entries)
    return benchmarks


def is_chosen(config: pytest.Config, entry: Entry) -> bool:
    """True if -m or -k selects this entry by its marks or name. An expression such as `not slow` does not count."""
    names = (entry.name.lower(), entry.id.lower())
    return _holds_only_for(config.option.markexpr, lambda word: word in entry.marks) or _holds_only_for(
        config.option.keyword, lambda word: any(word.lower() in name for name in names)
    )


def _holds_only_for(text: str, matches: Callable[[str], bool]) -> bool:
    if not text:
        return False
    from _pytest.mark.expression import Expression

    try:
        expression = Expression.compile(text)
    except SyntaxError:  # pytest itself reports it
        return False
    is_about_all = expression.evaluate(lambda word, /, **_: False)
    return not is_about_all and expression.evaluate(lambda word, /, **_: matches(word))


def has_matrix(config: pytest.Config) -> bool:
    benchmarks = config.stash[BENCHMARKS]
    return benchmarks.loaded is not None and benchmarks.is_asked_for


def is_plain(config: pytest.Config) -> bool:
    """True if matrices were found but nothing asks for them."""
    return not config.stash[BENCHMARKS].is_asked_for


def needs_session(config: pytest.Config) -> bool:
    """True if a session is shown or recorded before its first run."""
    return has_matrix(config) or is_recording(config) or resumes(config)


def resumes(config: pytest.Config) -> bool:
    return config.stash[BENCHMARKS].settings.resume is not None


def is_recording(config: pytest.Config) -> bool:
    return config.stash[BENCHMARKS].settings.benchmark


def has_fleet(config: pytest.Config) -> bool:
    return config.stash[BENCHMARKS].settings.fleet is not None


def may_report(config: pytest.Config) -> bool:
    """True if this process may have sinks: a controller with at least one named sink."""
    benchmarks = config.stash[BENCHMARKS]
    files = benchmarks.loaded.files if benchmarks.loaded else ()
    wanted = benchmarks.settings.sinks or benchmarks.settings.copy_to or any(file.sinks for file in files)
    return not hasattr(config, "workerinput") and bool(wanted)


def hand_over(config: pytest.Config) -> dict[str, bytes]:
    """Return what a worker needs of its controller, so that mistakes are found once and all share one session."""
    import pickle

    benchmarks = config.stash[BENCHMARKS]
    known = (benchmarks.settings, benchmarks.loaded, benchmarks.is_asked_for, benchmarks.done, benchmarks.doubted)
    return {_WORKER_INPUT: pickle.dumps(known, pickle.HIGHEST_PROTOCOL)}


def _handed_over(handed: bytes) -> Benchmarks:
    import pickle

    settings, loaded, is_asked_for, done, doubted = pickle.loads(handed)
    benchmarks = Benchmarks(settings, loaded)
    benchmarks.is_asked_for = is_asked_for
    benchmarks.done, benchmarks.doubted = done, doubted
    return benchmarks


def _load(settings: Settings, files: list[Path]) -> Matrix:
    from curator_bench.matrix import load

    with _garbage_may_wait():
        return load(_request(settings, files))


def _request(settings: Settings, files: list[Path]) -> LoadRequest:
    from curator_bench.matrix import LoadRequest

    return LoadRequest(
        files=tuple(files),
        overlays=settings.overlays,
        datasets_file=settings.datasets_file,
        strict=settings.strict,
        variables=os.environ,
        working_dir=settings.working_dir,
        curator_repo=settings.curator_repo,
        results_dir=settings.results_dir,
    )


def _check_names(wanted: tuple[str, ...], entries: tuple[Entry, ...]) -> None:
    if not wanted:
        return
    known = {name for entry in entries for name in (entry.name, entry.id)}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        names = ", ".join(sorted({entry.name for entry in entries})) or "none"
        raise BenchError(f"--bench-entries: unknown: {', '.join(unknown)}; known: {names}")


@contextmanager
def _garbage_may_wait() -> Iterator[None]:
    """Switch the garbage collector off. It would search more and more objects again and again, for nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def collecting(config: pytest.Config) -> Iterator[None]:
    """Speed up pytest's collection: of ten thousand entries a third of the time would be garbage collection.

    Collected items live until the end, so the collector is told to ignore them afterwards.
    """
    loaded = config.stash[BENCHMARKS].loaded
    if loaded is None or len(loaded.entries) < _MANY_ENTRIES or not gc.isenabled():
        yield
        return
    with _garbage_may_wait():
        yield
    gc.freeze()


def find_matrices(session: pytest.Session, settings: Settings) -> list[Path]:
    """Return the matrix files that pytest will collect for the command line's arguments, each once."""
    found: dict[Path, None] = {}
    config = session.config
    for argument in config.args:
        path = Path(os.path.abspath(settings.working_dir / str(argument).split("::")[0]))
        if path.is_dir():
            for file in files_below(path, settings.patterns, config.getini("norecursedirs")):
                if not _is_ignored(session, file, path) and is_matrix(file):
                    found[file] = None
        elif path.suffix in SUFFIXES and path.exists():
            found[path] = None
    return list(found)


def _is_ignored(session: pytest.Session, file: Path, top: Path) -> bool:
    """True if pytest's own rules (--ignore, collect_ignore, other plugins) skip the file or a folder above it."""
    below = file.relative_to(top).parts
    paths = [top.joinpath(*below[: count + 1]) for count in range(len(below))]
    return any(
        session.gethookproxy(path.parent).pytest_ignore_collect(collection_path=path, config=session.config)
        for path in paths
    )


def collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Return a matrix file as a collector; None for any other file."""
    if file_path.suffix not in SUFFIXES:
        return None
    benchmarks = parent.config.stash.get(BENCHMARKS, None)
    if benchmarks is None or not benchmarks.has(file_path):
        return None
    return MatrixModule.from_parent(parent, path=file_path)


def benchmark(entry: Entry, run_result: RunResult, judge_run: Callable[[Entry, RunResult], None]) -> None:
    """Test function of an entry: the fixture `run_result` has run the entry, and this judges the run."""
    judge_run(entry, run_result)


class MatrixModule(pytest.Module):
    """A matrix file as a module of test functions: one per entry, parametrized by its axes."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.obj = types.ModuleType(self.path.stem)
        self._variants: dict[str, list[Entry]] = {}

    def variants(self, name: str) -> list[Entry]:
        """Return the entry of this name once per combination of its axes."""
        return self._variants[name]

    def istestfunction(self, obj: object, name: str) -> bool:
        return name in self._variants

    def istestclass(self, obj: object, name: str) -> bool:
        return False

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        for entry in self.config.stash[BENCHMARKS].entries_of(self.path):
            self._variants.setdefault(entry.name, []).append(entry)
        marks, signature = _Marks(self.config), inspect.signature(benchmark)
        for name, variants in self._variants.items():
            function = _function(variants[0], str(self.path), self.obj.__name__, signature)
            vars(function)["pytestmark"] = marks.of(variants[0])
            vars(self.obj)[name] = function
        return super().collect()


def _function(entry: Entry, file: str, module: str, signature: inspect.Signature) -> types.FunctionType:
    """Return a test function for an entry, located in the matrix file for junit and IDEs."""
    code = benchmark.__code__.replace(co_filename=file, co_firstlineno=entry.place.line, co_name=entry.name)
    function = types.FunctionType(code, benchmark.__globals__, entry.name)
    vars(function)["__signature__"] = signature  # otherwise pytest would work it out for each of ten thousand items
    function.__module__ = module
    return function


class _Marks:
    """The marks of entries. Equal lists are one object, because a matrix may have ten thousand entries."""

    def __init__(self, config: pytest.Config) -> None:
        self._has_timeout = config.pluginmanager.hasplugin("timeout")
        self._settings = config.stash[BENCHMARKS].settings
        self._lists: dict[tuple[tuple[str, ...], float], list[pytest.MarkDecorator]] = {}

    def of(self, entry: Entry) -> list[pytest.MarkDecorator]:
        seconds = self._seconds(entry) if self._has_timeout else 0.0
        if (entry.marks, seconds) not in self._lists:
            self._lists[entry.marks, seconds] = self._marks(entry.marks, seconds)
        return self._lists[entry.marks, seconds]

    def _seconds(self, entry: Entry) -> float:
        settings = self._settings
        return backstop_s(entry, settings.confirm if has_gates(entry, settings) else 0, settings.runs)

    def _marks(self, names: tuple[str, ...], seconds: float) -> list[pytest.MarkDecorator]:
        marks = [getattr(pytest.mark, name) for name in names]
        return [*marks, pytest.mark.timeout(seconds)] if self._has_timeout else marks


def has_gates(entry: Entry, settings: Settings) -> bool:
    """True if runs of the entry are compared with its history."""
    gated = (one.max_regression is not None or one.max_drift is not None for one in entry.requirements)
    return settings.fail_on_regression or any(gated)


def backstop_s(entry: Entry, confirm: int = 0, runs: int = 1) -> float:
    """Return the seconds until pytest-timeout ends the item, well after the entry's own `timeout_s`."""
    executions = (entry.warmup + entry.repeat) * (entry.retries + runs) * (1 + confirm)
    set_up = sum(setup.timeout_s for setup in entry.file.data_setups)
    generated = {dataset.generate for dataset in entry.file.datasets.values() if dataset.generate}
    set_up += sum(generate.timeout_s for generate in generated)
    return executions * (entry.timeout_s + _SLACK_PER_EXECUTION_S) + _SET_UP_S + set_up


def generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize the item of an entry by its axes, and a Python benchmark by the entries of `bench_matrix`."""
    parent = metafunc.definition.parent
    if isinstance(parent, MatrixModule):
        variants = parent.variants(metafunc.definition.name)
        if variants[0].axes:
            _parametrize(metafunc, variants, [entry.variant for entry in variants])
        return
    for mark in metafunc.definition.iter_markers("bench_matrix"):
        try:
            entries = _marked_entries(metafunc, mark)
        except BenchError as error:
            _note_problem(metafunc, str(error))
        else:
            _parametrize(metafunc, entries, [entry.id for entry in entries])


def _parametrize(metafunc: pytest.Metafunc, entries: list[Entry], ids: list[str]) -> None:
    metafunc.parametrize("entry", entries, ids=ids, indirect=True)


def _note_problem(metafunc: pytest.Metafunc, problem: str) -> None:
    """Note a usage error. In a worker it would be a crash, so there it fails the collection of this file."""
    if hasattr(metafunc.config, "workerinput"):
        pytest.fail(problem, pytrace=False)
    metafunc.config.stash[BENCHMARKS].problems.append(problem)
    if "entry" in metafunc.fixturenames:
        _parametrize(metafunc, [], [])


def late_problems(config: pytest.Config) -> list[str]:
    benchmarks = config.stash.get(BENCHMARKS, None)
    return list(dict.fromkeys(benchmarks.problems)) if benchmarks else []


def _marked_entries(metafunc: pytest.Metafunc, mark: pytest.Mark) -> list[Entry]:
    if len(mark.args) != 1 or mark.kwargs or "entry" not in metafunc.fixturenames:
        where = metafunc.definition.nodeid
        raise BenchError(f'{where}: expected @pytest.mark.bench_matrix("FILE") on a function that takes `entry`')
    path = Path(os.path.normpath(metafunc.definition.path.parent / mark.args[0]))
    return metafunc.config.stash[BENCHMARKS].entries_of(path)


def entry_of(item: pytest.Item) -> Entry | None:
    """Return the entry an item runs, or None for any other item."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    if "entry" in parameters:
        from curator_bench.values import Entry

        if isinstance(found := parameters["entry"], Entry):
            return found
    return item.parent.variants(item.name)[0] if isinstance(item.parent, MatrixModule) else None


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect entries not named by `--bench-entries`. Other tests stay."""
    benchmarks = config.stash.get(BENCHMARKS, None)
    if benchmarks is None or not benchmarks.settings.entries:
        return
    wanted = set(benchmarks.settings.entries)
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        entry = entry_of(item)
        chosen = entry is None or entry.name in wanted or entry.id in wanted
        (kept if chosen else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


RUN: pytest.StashKey[RunRecord] = pytest.StashKey()
"""The run that counts for an item. Its `earlier` holds the runs before it."""
UNJUDGED = pytest.StashKey["tuple[Entry, RunResult]"]()
"""A run that is not judged yet."""


def attach_run(item: pytest.Item, report: pytest.TestReport) -> None:
    """Attach the run to the report of the phase that judged it, in builtin types, which pytest-xdist can transfer."""
    if report.when == "call" and RUN in item.stash:
        from curator_bench.files.codec import to_document

        vars(report)["curator_bench"] = to_document(item.stash[RUN])
