"""The rows of this process: its invocation, its runs with their heartbeat, and the hooks that note their ends.

Imported only with --benchmark, because it imports the database's library.
"""

from __future__ import annotations

import os
import platform
import shlex
import socket
import sys
import threading
from collections.abc import Generator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from curator_bench.collection.benchmarks import BENCHMARKS
from curator_bench.measure.processes import identify
from curator_bench.options.rootdir import name_in_project
from curator_bench.provenance.environment import boot_id
from curator_bench.runner.joining import will_run
from curator_bench.runner.run_keys import BACKGROUND, DEFINITION, PROFILES
from curator_bench.runner.session import ci_run_url, hunt_of, provenance_of, session_of, subjects_of
from curator_bench.store.database import Database, database_url, open_for_writing
from curator_bench.store.dead_runs import Here
from curator_bench.store.profiles import packed
from curator_bench.store.recorder import Recorder
from curator_bench.store.records import (
    Background,
    InvocationRecord,
    Process,
    RunEnd,
    RunStart,
    end_of,
    session_record,
    start_of,
)
from curator_bench.values import Entry, Plan, Run, RunRecord, Verdict, Where
from curator_bench.words import printable

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

_HEARTBEAT_S = 30.0
_RECORDING = pytest.StashKey["Recording"]()
_UID = pytest.StashKey[str]()
"""The uid of the item's row."""
_OUTPUT = "curator_bench_problems"


class Recording:
    """The recorder of this process, with the heartbeat of its runs in progress."""

    def __init__(self, config: pytest.Config, database: Database) -> None:
        self.database = database
        self.recorder = Recorder(database, session_record(session_of(config)), _invocation(config))
        self._process = _this_process(provenance_of(config).machine_id)
        self._under_way: set[str] = set()
        self._ended = threading.Event()
        self._heart: threading.Thread | None = None

    def start(self, run: Run, background: Background) -> RunStart:
        """Record that a run starts now, in this process or in a fleet."""
        start = replace(start_of(run, self._process), circumstances=background.circumstances_uid)
        self.recorder.start_run(start, background)
        self._under_way.add(run.uid)
        if self._heart is None:
            self._heart = threading.Thread(target=self._beat, name="curator-bench heartbeat", daemon=True)
            self._heart.start()
        return start

    def finish(self, uid: str, end: RunEnd) -> None:
        self._under_way.discard(uid)
        self.recorder.finish_run(uid, end)

    def is_under_way(self, uid: str) -> bool:
        return uid in self._under_way

    def close(self) -> None:
        self._ended.set()
        if self._heart is not None:
            self._heart.join(5)
        self.database.close()

    def _beat(self) -> None:
        while not self._ended.wait(_HEARTBEAT_S):
            self.recorder.heartbeat(tuple(self._under_way))


def recording_of(config: pytest.Config) -> Recording | None:
    """Return the recording of this process, or None without --benchmark."""
    settings = config.stash[BENCHMARKS].settings
    if not settings.benchmark:
        return None
    if _RECORDING not in config.stash:
        database = open_for_writing(database_url(settings.database), here=_here())
        config.stash[_RECORDING] = Recording(config, database)
        config.add_cleanup(config.stash[_RECORDING].close)
    return config.stash[_RECORDING]


def recorder_of(config: pytest.Config) -> Recorder | None:
    recording = recording_of(config)
    return recording.recorder if recording else None


def begin_invocation(config: pytest.Config) -> None:
    """Record the invocation before anything runs. An invocation that is refused leaves no session behind."""
    recorder = recorder_of(config)
    if recorder is not None:
        recorder.start_invocation()


def finish_invocation(config: pytest.Config, exit_status: int) -> None:
    """Record the end of the invocation, in the controller."""
    if _RECORDING in config.stash:
        config.stash[_RECORDING].recorder.finish_invocation(exit_status)


def problems(config: pytest.Config) -> tuple[str, ...]:
    """Return a line for each kind of thing that could not be recorded."""
    return config.stash[_RECORDING].recorder.problems() if _RECORDING in config.stash else ()


def _here() -> Here:
    return Here(host=socket.gethostname(), boot_id=boot_id(), process_start=_process_start)


def _process_start(pid: int) -> float | None:
    process = identify(pid)
    return process.started if process else None


def _this_process(machine_id: str) -> Process:
    return Process(
        host=socket.gethostname(),
        machine_id=machine_id,
        boot_id=boot_id(),
        pid=os.getpid(),
        process_start=_process_start(os.getpid()),
        python_version=platform.python_version(),
        platform=sys.platform,
        ci_run_url=ci_run_url(),
    )


def note_links(config: pytest.Config, links: Mapping[str, Mapping[str, str]]) -> None:
    """Record the URLs of sinks by run (the session has the empty uid). No-op without --benchmark."""
    recorder = recorder_of(config)
    if recorder is not None and links:
        recorder.note_links(links)


def _invocation(config: pytest.Config) -> InvocationRecord:
    benchmarks = config.stash[BENCHMARKS]
    words = [str(word) for word in config.invocation_params.args]
    is_worker = hasattr(config, "workerinput")
    return InvocationRecord(
        uid=benchmarks.settings.invocation,
        start=datetime.now(UTC),
        host=socket.gethostname(),
        environment=None if is_worker else provenance_of(config).environment(subjects_of(benchmarks)),
        ci_run_url=ci_run_url(),
        command_line=shlex.join(map(benchmarks.mask.hide, ["pytest", *words])),
    )


def start_row(item: pytest.Item, entry: Entry, plan: Plan, where: Where | None = None) -> None:
    """Write the row of a run that starts now. `where` is given in a fleet."""
    recording = recording_of(item.config)
    if recording is None:
        return
    run = Run(
        name=entry.id,
        entry=entry.name,
        nodeid=item.nodeid,
        uid=plan.uid,
        attempt=plan.attempt,
        started_at=datetime.now(UTC).isoformat(),
        file=path_of(item, entry),
        definition_hash=item.stash[DEFINITION].hash,
        hunt=hunt_of(item.config),
        host=where.host if where else "",
        machine_id=where.machine_id if where else "",
        gpus=where.gpus if where else (),
    )
    recording.start(run, item.stash[BACKGROUND]())
    item.stash[_UID] = run.uid


def path_of(item: pytest.Item, entry: Entry) -> str:
    """Return the file of an entry as the database knows it."""
    return name_in_project(entry.file.file, item.config)


def finish_row(item: pytest.Item, run: RunRecord) -> None:
    """Complete the row of a judged run, or of an earlier run of the item that was judged together with it."""
    recording = recording_of(item.config)
    if recording is not None and _UID in item.stash:
        profiles = item.stash.get(PROFILES, {}).get(run.uid, ())
        recording.finish(run.uid, replace(end_of(run), profiles=tuple(map(packed, profiles))))


def note_teardown(item: pytest.Item, outcome: str) -> None:
    """Note the outcome of the item's teardown, and complete the row of a run that was never judged."""
    recording = recording_of(item.config)
    if recording is None or _UID not in item.stash:
        return
    uid = item.stash[_UID]
    if recording.is_under_way(uid):
        error = "ended before it was judged: a fixture or a hook failed"
        recording.finish(uid, RunEnd(Verdict.ERROR, datetime.now(UTC), call_outcome="failed", error=error))
    recording.recorder.note_teardown(uid, outcome)


class RecordingHooks:
    """Hooks of recording. In the controller they open the database at once, to report problems before anything runs."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._is_worker = hasattr(config, "workerinput")
        self._has_begun = False
        self._problems: list[str] = []
        if not self._is_worker:
            recording_of(config)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        if will_run(session):
            begin_invocation(self._config)
            self._has_begun = True
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "teardown":
            note_teardown(item, report.outcome)
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if self._has_begun:
            finish_invocation(self._config, int(exitstatus))
        if _RECORDING in self._config.stash:
            self._config.stash[_RECORDING].recorder.read_back()
        if self._is_worker:
            vars(self._config)["workeroutput"][_OUTPUT] = list(problems(self._config))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._problems += getattr(node, "workeroutput", {}).get(_OUTPUT, [])

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        for problem in dict.fromkeys([*self._problems, *problems(self._config)]):
            terminalreporter.write_line(printable(problem), red=True)
