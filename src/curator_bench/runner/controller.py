"""The controller's side of a session: finds missing scripts, shows the warnings of matrices, and their runs.

Most projects never have a run to show, so what only a run needs is imported in functions.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import socket
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from curator_bench.collection.benchmarks import BENCHMARKS, REPORT, Benchmarks, has_matrix
from curator_bench.collection.items import NO_ESCAPING, MatrixModule, entry_of, name_of_item
from curator_bench.collection.multiplied import ByNodeId
from curator_bench.errors import MatrixError, Mistake
from curator_bench.options.settings import Settings

if TYPE_CHECKING:
    from curator_bench.report.progress import Usual
    from curator_bench.report.progress_output import ProgressOutput
    from curator_bench.report.terminal import TerminalReport
    from curator_bench.values import Entry, Place

_FIRST_RUN = "curator_bench_first_run"


def announce(config: pytest.Config) -> None:
    """Show the warnings of the matrices, and set up the display of runs. Only in the controller."""
    benchmarks = config.stash[BENCHMARKS]
    if hasattr(config, "workerinput") or not config.pluginmanager.hasplugin("terminalreporter"):
        return
    if not has_matrix(config) and not benchmarks.settings.benchmark:
        first = FirstRun(config.pluginmanager, functools.partial(_show_runs_from, config))
        config.pluginmanager.register(first, _FIRST_RUN)
        return
    if config.pluginmanager.hasplugin(_FIRST_RUN):
        config.pluginmanager.unregister(name=_FIRST_RUN)
    for message in benchmarks.matrix.warnings:
        warn(config, message)
    _show_runs(config)


class FirstRun:
    """A plugin of the controller that shows runs from the first one on. Without a matrix there may be none."""

    def __init__(self, plugins: pytest.PytestPluginManager, show_runs: Callable[[str], TerminalReport]) -> None:
        self._plugins = plugins
        self._show_runs = show_runs

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if hasattr(report, "curator_bench"):
            self._plugins.unregister(self)
            self._show_runs(report.nodeid).note_run(report)


def _show_runs_from(config: pytest.Config, nodeid: str) -> TerminalReport:
    """Show runs from the first one on. If that is not the run of an entry, the matrices were left out."""
    benchmarks = config.stash[BENCHMARKS]
    if not has_matrix(config) and nodeid not in entry_dirs(config, benchmarks):
        benchmarks.leave_out()
    return _show_runs(config)


def _show_runs(config: pytest.Config) -> TerminalReport:
    from curator_bench.report.terminal import TerminalReport
    from curator_bench.runner.fitness import unfit_line
    from curator_bench.runner.open_findings import open_findings_of

    benchmarks = config.stash[BENCHMARKS]
    terminal = config.pluginmanager.getplugin("terminalreporter")
    folders = entry_dirs(config, benchmarks)
    named = ByNodeId(dict(zip(folders, map(_metrics_of_sinks, benchmarks.matrix.entries), strict=True)))
    database = benchmarks.mask.hide(benchmarks.settings.database) if benchmarks.settings.benchmark else None
    apart = _why_apart(config) if database else ""
    progress = _progress(benchmarks, folders)
    findings = functools.partial(open_findings_of, config)
    report = TerminalReport(terminal, benchmarks.session_dir, folders, progress, named, database, apart, findings)
    if database:
        report.unfit = unfit_line(config)
    config.pluginmanager.register(report, REPORT)
    config.pluginmanager.register(SummaryHook(config, report), "curator_bench_summary_hook")
    return report


def _why_apart(config: pytest.Config) -> str:
    """Return why the runs of this invocation are no history; empty if they are."""
    from curator_bench.runner.session import hunt_of
    from curator_bench.values import Hunt

    hunt = hunt_of(config)
    return "a git bisect is under way" if hunt == Hunt.GIT_BISECT else hunt and f"these are runs of {hunt}"


def _progress(benchmarks: Benchmarks, folders: Mapping[str, Path]) -> ProgressOutput:
    from curator_bench.files.json_files import write_json
    from curator_bench.report.progress import Planned, Progress
    from curator_bench.report.progress_output import ProgressOutput

    settings = benchmarks.settings
    planned = {
        nodeid: Planned(folder, _gpus(entry, settings))
        for (nodeid, folder), entry in zip(folders.items(), benchmarks.matrix.entries, strict=True)
    }
    write = functools.partial(write_json, benchmarks.session_dir / "progress.json")
    facts: dict[str, str | int] = {"session": settings.session, "invocation": settings.invocation}
    facts |= {"host": socket.gethostname(), "pid": os.getpid()}
    entries = dict(zip(folders, benchmarks.matrix.entries, strict=True))
    progress = Progress(ByNodeId(planned), lambda: ByNodeId(_usual_durations(settings.database, entries)))
    return ProgressOutput(progress, write, facts, settings.progress_every_s)


def _metrics_of_sinks(entry: Entry) -> list[str]:
    """Return the metrics that an entry names for its sinks."""
    named = [settings.get("additional_metrics") for settings in entry.sink_data.values()]
    return [str(name) for names in named if isinstance(names, list | tuple) for name in names]


def _gpus(entry: Entry, settings: Settings) -> float | None:
    """Return the number of GPUs a run occupies; None if it takes all that its cluster finds."""
    if settings.fleet:
        from curator_bench.fleet.slices import slice_of

        return slice_of(entry.ray, settings.fleet.runs_per_gpu).num_gpus
    return 0.0 if entry.ray is None or entry.ray.address else entry.ray.num_gpus


def _usual_durations(database: str, entries: Mapping[str, Entry]) -> Mapping[str, Usual]:
    """Return earlier durations. Problems with the database are ignored, because the session must not wait for them."""
    if "://" not in database and not os.path.exists(database):
        return {}
    from curator_bench.matrix import Definitions
    from curator_bench.report.progress import Usual
    from curator_bench.store.usual_durations import usual_durations

    definitions, found = Definitions(), {}
    try:
        for nodeid, by_definition in usual_durations(database).items():
            if nodeid in entries:
                own = by_definition.pop(definitions.hash_of(entries[nodeid]), None)
                found[nodeid] = Usual(own, next(iter(by_definition.values()), None))
    except Exception as error:  # only a line on the terminal depends on it
        logging.getLogger(__name__).debug("no durations from %s: %s", database, error)
    return found


def warn(config: pytest.Config, message: str, place: Place | None = None) -> None:
    """Record a pytest warning at a place in the matrix. Without one, the place is taken from the message."""
    said = re.search(r"(\S+?):([0-9]+): ", message)
    file, line = place or ((said[1], int(said[2])) if said else ("matrix", 0))
    warning = warnings.WarningMessage(pytest.PytestWarning(message), pytest.PytestWarning, file, line)
    config.hook.pytest_warning_recorded.call_historic(
        kwargs={"warning_message": warning, "when": "config", "nodeid": "", "location": (file, line, "matrix")}
    )


def entry_dirs(config: pytest.Config, benchmarks: Benchmarks) -> ByNodeId[Path]:
    """Return the folder of each entry by the node id of its item."""
    session_dir, matrix = benchmarks.session_dir, benchmarks.matrix
    files = {file.file: Path(os.path.relpath(file.file, config.rootpath)).as_posix() for file in matrix.files}
    is_escaped = not config.getini(NO_ESCAPING)
    return ByNodeId(
        {
            f"{files[entry.file.file]}::{name_of_item(entry, is_escaped)}": session_dir.joinpath(*entry.folder)
            for entry in matrix.entries
        }
    )


def check_scripts(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Raise MatrixError for selected entries without a script.

    A path with placeholders is left to the run. An absolute path may exist only on the machines of a fleet.
    """
    fleet = config.stash[BENCHMARKS].settings.fleet
    is_elsewhere = fleet is not None and fleet.address != "local"
    entries = (entry_of(item) for item in items if isinstance(item.parent, MatrixModule))
    by_name = {entry.name: entry for entry in entries if entry is not None}
    mistakes = [*_mistakes(entry for entry in by_name.values() if not (is_elsewhere and os.path.isabs(entry.script)))]
    if mistakes:
        raise MatrixError(mistakes)


def _mistakes(entries: Iterable[Entry]) -> Iterator[Mistake]:
    from curator_bench.matrix.command import find_script

    find = functools.cache(find_script)
    for entry in entries:
        if entry.problems or not {"{", "$"}.isdisjoint(entry.script):
            continue
        _, problems = find(entry.script, entry.script_base_dir, entry.directories)
        yield from (Mistake(entry.place, f"entries[{entry.name}].script", problem) for problem in problems)


class SummaryHook:
    """A plugin of the controller. Its lines follow the table of runs."""

    def __init__(self, config: pytest.Config, report: TerminalReport) -> None:
        self._config, self._report = config, report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._report.runs and self._config.hook.pytest_bench_session_summary.get_hookimpls():
            from curator_bench.words import printable

            for line in self._lines():
                terminalreporter.write_line(printable(line))

    def _lines(self) -> Iterator[str]:
        from curator_bench.runner.session import session_of

        try:
            answers = self._config.hook.pytest_bench_session_summary(
                config=self._config, session=session_of(self._config), runs=self._report.runs
            )
            for said in reversed(answers):  # pytest calls the last registered one first
                yield from [said] if isinstance(said, str) else map(str, said)
        except Exception as error:  # a failing report is a warning, whatever it raises
            yield f"warning: pytest_bench_session_summary: {type(error).__name__}: {error}"
