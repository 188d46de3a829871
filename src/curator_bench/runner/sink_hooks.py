"""The hooks that report to sinks, registered only in the controller and only if there are sinks."""

from __future__ import annotations

import dataclasses
import os
import socket
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from curator_bench.collection.benchmarks import BENCHMARKS, REPORT, Benchmarks
from curator_bench.collection.multiplied import ByNodeId
from curator_bench.errors import BenchError, Mistake
from curator_bench.files.codec import from_document, to_document
from curator_bench.masking import masked
from curator_bench.matrix import definition_hash
from curator_bench.measure.processes import identify
from curator_bench.report.session_runs import run_on
from curator_bench.runner import recording
from curator_bench.runner.controller import entry_dirs, warn
from curator_bench.runner.open_findings import open_findings_of
from curator_bench.runner.session import provenance_of, session_of, shown_path, subjects_of
from curator_bench.runner.sinks import choose
from curator_bench.sinks.copying import CopyConfig
from curator_bench.sinks.dispatcher import Chosen, Dispatcher
from curator_bench.values import Entry, OpenFinding, Run, RunRecord, Session, Summary

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter


def sink_hooks(config: pytest.Config) -> SinkHooks | None:
    """Return the hooks, or None without sinks. Raises BenchError for mistakes in sinks' blocks."""
    benchmarks = config.stash[BENCHMARKS]
    warnings: list[Mistake] = []
    chosen = choose(benchmarks.matrix, benchmarks.settings, warnings)
    for one in chosen:
        if isinstance(one.config, CopyConfig) and one.config.is_within(benchmarks.session_dir, one.matrix_dir):
            raise BenchError(f"{one.config.to} cannot be copied to: it is the folder of the session; name another")
    for warning in warnings:
        warn(config, str(warning), warning.place)
    return SinkHooks(config, chosen) if chosen else None


class SinkHooks:
    """Passes results to sinks. They arrive on test reports, wherever they were run."""

    def __init__(self, config: pytest.Config, chosen: list[Chosen]) -> None:
        self._config = config
        self._benchmarks = config.stash[BENCHMARKS]
        self._chosen = chosen
        self._entry_dirs = entry_dirs(config, self._benchmarks)
        self._entries = ByNodeId(dict(zip(self._entry_dirs, self._benchmarks.matrix.entries, strict=True)))
        self._expected: tuple[str, ...] = ()
        """Names of the entries to run. Workers of xdist report them one after the other, and all report the same."""
        self._began = datetime.now(UTC)
        self._verdicts: dict[str, str] = {}
        """The verdict of each run passed to sinks, by node id."""
        self._dispatcher: Dispatcher | None = None
        self._links: dict[str, dict[str, str]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._expect(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Iterable[str]) -> None:
        self._expect(ids)

    def _expect(self, nodeids: Iterable[str]) -> None:
        names = tuple(self._entries[nodeid].id for nodeid in nodeids if nodeid in self._entries)
        self._expected = max(self._expected, names, key=len)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if nodeid in self._entry_dirs:
            entry = self._entries[nodeid]
            directory = shown_path(str(self._entry_dirs[nodeid]), self._benchmarks)
            started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
            run = Run(name=entry.id, entry=entry.name, nodeid=nodeid, started_at=started_at, directory=directory)
            self._started_dispatcher().tell(run, self._sink_data_of(entry))

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if (run := run_on(report)) is not None:
            self._finished(run)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> Generator[None, object, object]:
        """End the session of the sinks, after interrupted runs are known and before pytest's summary."""
        try:
            return (yield)
        finally:
            report = self._config.pluginmanager.get_plugin(REPORT)
            for run in report.runs if report is not None else ():
                if run.nodeid not in self._verdicts:
                    self._finished(run)
            if self._dispatcher is not None:
                self._end(self._dispatcher, int(exitstatus))

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if self._dispatcher is not None:
            for line in self._dispatcher.summary_lines():
                terminalreporter.write_line(line, yellow=line.startswith("warning:"))

    def _started_dispatcher(self) -> Dispatcher:
        """Return the dispatcher. Sinks are told of a session when its first run starts."""
        if self._dispatcher is None:
            session = self._session()
            source = source_of(self._benchmarks)
            self._dispatcher = Dispatcher(self._chosen, session, source, self._benchmarks.mask)
        return self._dispatcher

    def _session(self) -> Session:
        benchmarks = self._benchmarks
        environment = provenance_of(self._config).environment(subjects_of(benchmarks))
        return dataclasses.replace(
            session_of(self._config),
            started_at=self._began.isoformat(timespec="milliseconds"),
            runs_expected=len(self._expected),
            entries=tuple(dict.fromkeys(self._expected)),
            environment=dict(_flat(masked(environment, benchmarks.mask))),
        )

    def _finished(self, run: RunRecord) -> None:
        self._verdicts[run.nodeid] = str(run.verdict)
        for earlier in run.earlier:
            self._tell(dataclasses.replace(earlier, is_last=False))
        self._tell(dataclasses.replace(run, earlier=()))

    def _tell(self, run: RunRecord) -> None:
        entry = self._entries.get(run.nodeid)
        record = shown_to_sinks(run, entry, self._benchmarks)
        self._started_dispatcher().tell(record, self._sink_data_of(entry) if entry else {})

    def _sink_data_of(self, entry: Entry) -> dict[str, Any]:
        found: dict[str, Any] = masked(dict(entry.sink_data), self._benchmarks.mask)
        return found

    def _end(self, dispatcher: Dispatcher, exit_status: int) -> None:
        now = datetime.now(UTC)
        summary = Summary(
            counts=dict(Counter(self._verdicts.values())),
            started_at=self._began.isoformat(timespec="milliseconds"),
            ended_at=now.isoformat(timespec="milliseconds"),
            duration_s=(now - self._began).total_seconds(),
            exit_status=exit_status,
            findings=self._findings(),
        )
        dispatcher.finish(summary, self._benchmarks.settings.sink_grace_s, self._say_now)
        recording.note_links(self._config, dispatcher.links())

    def _findings(self) -> tuple[OpenFinding, ...]:
        """Return the open findings of what ran, with secrets masked."""
        mask = self._benchmarks.mask
        found = open_findings_of(self._config)
        return tuple(from_document(OpenFinding, masked(to_document(one), mask)) for one in found)

    def _say_now(self, line: str) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and terminal.verbosity >= 0:
            terminal.ensure_newline()
            terminal.write_line(line)


def shown_to_sinks(run: RunRecord, entry: Entry | None, benchmarks: Benchmarks) -> RunRecord:
    """Return the record for sinks: secrets masked, and the log's path as its readers know it.

    The record of a lost process lacks facts, which its entry supplies.
    """
    run = dataclasses.replace(
        run,
        shown_log_path=shown_path(run.log_path, benchmarks),
        ended_at=run.ended_at or run.started_at,
        entry=run.entry or run.name,
        marks=run.marks or (entry.marks if entry else ()),
        definition_hash=run.definition_hash or (definition_hash(entry) if entry else ""),
    )
    return from_document(RunRecord, masked(to_document(run), benchmarks.mask))


def source_of(benchmarks: Benchmarks) -> dict[str, Any]:
    """Return the facts for `curator-bench resend`: the matrix files, their options, and this process.

    Variables are read again when it resends.
    """
    settings = benchmarks.settings
    here = identify(os.getpid())
    return {
        "files": [file.file for file in benchmarks.matrix.files],
        "overlays": [str(path) for path in settings.overlays],
        "datasets": str(settings.datasets_file) if settings.datasets_file else None,
        "working_dir": str(settings.working_dir),
        "curator_repo": settings.curator_repo,
        "copy_to": benchmarks.mask.hide(settings.copy_to or ""),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "process_start": here.started if here else None,
    }


def _flat(value: Any, prefix: str = "") -> Generator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat(inner, f"{prefix}{name}.")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _flat(inner, f"{prefix}{index}.")
    else:
        yield prefix.rstrip("."), value
