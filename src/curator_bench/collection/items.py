"""Entries as pytest items: their ids, marks and backstop timeout, and the parameters of Python benchmarks.

Every pytest start imports this module, and most have no matrix. So modules that only a matrix needs are imported in
functions.
"""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from curator_bench import garbage
from curator_bench.collection.benchmarks import BENCHMARKS
from curator_bench.collection.matrix_files import SUFFIXES
from curator_bench.errors import BenchError
from curator_bench.options.settings import Settings

if TYPE_CHECKING:
    from curator_bench.values import Entry, RunRecord, RunResult

# The time a run may take beside its script: starting and stopping a cluster per execution, and making datasets.
_SLACK_PER_EXECUTION_S = 60
_SET_UP_S = 600
_MANY_ENTRIES = 1_000
NO_ESCAPING = "disable_test_id_escaping_and_forfeit_all_rights_to_community_support"
"""The ini key by which pytest leaves parameters in names as they are."""


@contextmanager
def collecting(config: pytest.Config) -> Iterator[None]:
    """Speed up pytest's collection: of ten thousand entries a third of the time would be garbage collection.

    Collected items live until the end, so the collector is told to ignore them afterwards.
    """
    loaded = config.stash[BENCHMARKS].loaded
    if loaded is None or len(loaded.entries) < _MANY_ENTRIES:
        yield
        return
    with garbage.left_alone():
        yield
    garbage.keep_what_is_there()


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
        confirm = settings.confirm if has_gates(entry, settings) else 0
        return backstop_s(entry, confirm, settings.runs, len(settings.profilers))

    def _marks(self, names: tuple[str, ...], seconds: float) -> list[pytest.MarkDecorator]:
        marks = [getattr(pytest.mark, name) for name in names]
        return [*marks, pytest.mark.timeout(seconds)] if self._has_timeout else marks


def has_gates(entry: Entry, settings: Settings) -> bool:
    """True if runs of the entry are compared with its history."""
    gated = (one.max_regression is not None or one.max_drift is not None for one in entry.requirements)
    return settings.fail_on_regression or any(gated)


def backstop_s(entry: Entry, confirm: int = 0, runs: int = 1, profilers: int = 0) -> float:
    """Return the seconds until pytest-timeout ends the item, well after the entry's own `timeout_s`."""
    executions = (entry.warmup + entry.repeat) * (entry.retries + runs) * (1 + confirm)
    executions += (entry.warmup + 1) * profilers
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
    """Note a usage error. A worker would crash on it, so in a worker it fails the collection of this file."""
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


def name_of_item(entry: Entry, is_escaped: bool) -> str:
    """Return the name of an entry's item. Pytest escapes backslashes and characters outside ASCII in parameters."""
    if not entry.axes or not is_escaped:
        return entry.id
    return f"{entry.name}[{entry.variant.encode('unicode_escape').decode()}]"


def entry_of(item: pytest.Item) -> Entry | None:
    """Return the entry an item runs, or None for any other item."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    if "entry" in parameters:
        from curator_bench.values import Entry

        if isinstance(found := parameters["entry"], Entry):
            return found
    if isinstance(item, pytest.Function) and isinstance(item.parent, MatrixModule):
        return item.parent.variants(item.originalname)[0]
    return None


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
