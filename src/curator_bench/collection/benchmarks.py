"""The benchmarks of one pytest process: its settings and the matrix that its controller loaded.

Every pytest start imports this module, and most have no matrix. So modules that only a matrix needs are imported in
functions.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from curator_bench import garbage
from curator_bench.collection.matrix_files import SUFFIXES, files_below, is_matrix
from curator_bench.errors import BenchError
from curator_bench.options.settings import Settings, read_settings

if TYPE_CHECKING:
    from curator_bench.masking import Mask
    from curator_bench.matrix import LoadRequest
    from curator_bench.values import Entry, Matrix

_WORKER_INPUT = "curator_bench"
REPORT = "curator_bench_report"
"""The name of the plugin that shows runs, in the controller."""


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

    @functools.cached_property
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

    @functools.cached_property
    def session_dir(self) -> Path:
        """RESULTS/SESSION. RESULTS is --bench-results, or that of the matrices, or ./results."""
        said = [file.results_dir for file in self.matrix.files if file.results_dir]
        results = self.settings.results_dir or (said[0] if said else self.settings.working_dir / "results")
        return Path(results) / self.settings.session

    def has(self, path: Path) -> bool:
        return str(path) in self._by_file

    def join(self, session: str) -> None:
        """Take the session of this name."""
        self.settings = self.settings.with_session(session)
        self._forget("session_dir")

    def leave_out(self) -> None:
        """Go on as if no matrix had been loaded."""
        self.loaded = None
        self._forget("matrix", "session_dir")

    def _forget(self, *properties: str) -> None:
        for name in properties:
            vars(self).pop(name, None)


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

    with garbage.left_alone():
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
        raise BenchError(f"--bench-entries: no entry {', '.join(unknown)}; there are: {names}")


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
