"""Python benchmarks: the run of a test with a measuring fixture, from its start to its row and test report.

Registered only with --benchmark. Summaries show such a run like an entry.
"""

from __future__ import annotations

import inspect
import re
import shlex
import textwrap
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeGuard

import pytest

from curator_bench import stages
from curator_bench.collection.benchmarks import BENCHMARKS, REPORT
from curator_bench.collection.multiplied import STEP, own_nodeid
from curator_bench.files.codec import to_document
from curator_bench.masking import is_secret_name, masked
from curator_bench.matrix import Definition, function_definition
from curator_bench.measure.named_stages import NamedStages, in_bounds
from curator_bench.options.rootdir import name_in_project
from curator_bench.provenance.packages import package_version
from curator_bench.runner.backgrounds import background_of
from curator_bench.runner.benchmark_fixture import Rounds, instruments_of, is_switched_off
from curator_bench.runner.disturbing import disturbed_by, warning_of
from curator_bench.runner.judging import Judge, changes_texts, error_of, shown_error, verdict_of
from curator_bench.runner.recording import Recording, recording_of
from curator_bench.runner.run_keys import MEASURING, PYTHON_RUN
from curator_bench.runner.run_records import masked_checks, masked_stage
from curator_bench.runner.session import hunt_of, item_dir
from curator_bench.store.profiles import packed
from curator_bench.store.queries import EntryKey
from curator_bench.store.records import FIGURES, METRIC_OF_COLUMN, end_of, new_uid
from curator_bench.values import (
    MACHINE,
    Check,
    Entry,
    Profile,
    Run,
    RunRecord,
    RunResult,
    Scalar,
    Stage,
    Verdict,
)

if TYPE_CHECKING:
    from curator_bench.cluster.model import Cluster
    from curator_bench.runner.gates import Gates
    from curator_bench.store.schema import TestRun

COLUMNS = {"exec_time_s": "duration", **{metric: column for column, metric in METRIC_OF_COLUMN.items()}}
"""Metrics that also have a column of their own."""
_OF_THE_END = ("duration", "error", "exit_code", "node", "gpu", "command", "log_path")
SETTABLE = (*sorted(FIGURES), *_OF_THE_END)
"""Attributes of `test_run_benchmark` that are written when the test ends."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_PLAIN = (str, int, float, bool, type(None))
_ATTEMPT = pytest.StashKey[int]()
"""The number of the item's run: above 1 if a plugin such as pytest-rerunfailures runs its test again."""


class PythonRun:
    """A run in progress. Its row is written when the object is made."""

    def __init__(self, item: pytest.Function, recording: Recording) -> None:
        self.recording = recording
        self.metrics: dict[str, Scalar] = {}
        self.judged: set[str] = set()
        """The metrics that were compared with their history."""
        self.params: dict[str, Any] = parameters_of(item)
        self.warnings: list[str] = []
        self.samples: Mapping[str, tuple[float, ...]] = {}
        self.stages: tuple[Stage, ...] = ()
        """Stages of its Ray tasks; those it names itself are in `named`."""
        self.named = NamedStages(time.monotonic())
        self.changed: tuple[str, ...] = ()
        self.checks: tuple[Check, ...] = ()
        self.verdict = Verdict.PASSED
        self.error = ""
        self._item = item
        self._outcomes: dict[str, str] = {}
        self._call_s: float | None = None
        self._columns: dict[str, Any] = {"ray_version": package_version("ray")}
        self._row: TestRun | None = None
        self._mask = item.config.stash[BENCHMARKS].mask
        self.definition = _definition(item)
        self._run = run_of(item, self.definition)
        self.background = background_of(item.config, self.definition, self._mask)
        self._start = recording.start(self._run, self.background)

    def note_metrics(self, metrics: Mapping[str, Scalar]) -> None:
        """Keep metrics, and set their columns."""
        self.metrics.update(metrics)
        for metric, column in COLUMNS.items():
            if metric in metrics:
                self._set(column, metrics[metric])

    def note_rounds(self, rounds: Rounds) -> None:
        """Keep what another plugin measured."""
        self.note_metrics(rounds.metrics)
        self.params.update(rounds.params)
        self.samples = rounds.samples

    def note_cluster(self, cluster: Cluster, *, details: bool = False) -> None:
        """Note the cluster's size in the row; with `details` also its name, id and dashboard."""
        self._set("ray_version", cluster.ray_version or self._columns["ray_version"])
        self._set("ray_num_cpus", cluster.resources.get("CPU"))
        self._set("ray_num_gpus", cluster.resources.get("GPU", 0.0) if cluster.resources else None)
        self._mask = self._mask.also(frozenset(filter(None, [cluster.token])))
        if details:
            self._set("cluster_name", cluster.session_dir.name if cluster.session_dir else cluster.address)
            self._set("cluster_id", cluster.node_id or None)
            self._set("cluster_details_url", cluster.dashboard_url or None)

    def note_cluster_facts(self, name: str | None, cluster_id: str | int | None, url: str | None) -> None:
        """Note facts of a cluster that is not ours."""
        self._set("cluster_name", name)
        self._set("cluster_id", None if cluster_id is None else str(cluster_id))
        self._set("cluster_details_url", url)

    def note_artifact(self, column: str, place: str) -> None:
        """Note the place of a file that was made of the run, in a column for it."""
        self._set(column, place)

    @property
    def origin(self) -> tuple[EntryKey, Definition | None]:
        """The entry's key in the history, and its definition."""
        return EntryKey(self._run.name, self._run.file), self.definition

    @property
    def row(self) -> TestRun:
        """The row as an object. Attributes that are set on it are written when the run ends."""
        if self._row is None:
            from curator_bench.store.schema import TestRun

            known = {name: getattr(self._start, name) for name in type(self._start).__slots__}
            self._row = TestRun(**{**known, **self._columns})
        return self._row

    def note_phase(self, phase: str, outcome: str, seconds: float) -> None:
        self._outcomes[phase] = outcome
        if phase == "call":
            self._call_s = seconds

    def note_verdict(self, verdict: Verdict, error: str) -> None:
        """Set the verdict. The first one other than `passed` stays."""
        if self.verdict is Verdict.PASSED:
            self.verdict, self.error = verdict, error

    def result(self) -> RunResult:
        """Return the measurements as a result, for a judge."""
        run, now = self._run, datetime.now(UTC).isoformat()
        return RunResult(
            run.name,
            self.verdict,
            run.started_at,
            now,
            0.0,
            params=self._shown_params(),
            metrics=self.metrics,
            warnings=tuple(self.warnings),
        )

    def record(self, profiles: Sequence[Profile] = ()) -> None:
        """Complete the row. A second call adds the profiles."""
        if "call" not in self._outcomes:
            self.note_verdict(Verdict.ERROR, "its test did not run")
        self.recording.finish(self._run.uid, replace(end_of(self.so_far()), profiles=tuple(map(packed, profiles))))

    def so_far(self) -> RunRecord:
        """Return the record of the run in its present state. At its end it is complete."""
        columns, directory = self._columns_now(), item_dir(self._item)
        disturbance = disturbed_by(self._item.config, self.verdict, self.metrics)
        disturbance = disturbance and self._mask.hide(disturbance)
        return RunRecord(
            **{name: getattr(self._run, name) for name in Run.__dataclass_fields__ if name != "directory"},
            verdict=self.verdict,
            ended_at=datetime.now(UTC).isoformat(),
            duration_s=columns.get("duration") or self._call_s or 0.0,
            error=columns.get("error") or self._shown_error(),
            exit_code=columns.get("exit_code"),
            command=_words(columns.get("command")),
            log_path=columns.get("log_path") or "",
            params=self._shown_params(),
            metrics=masked(self.metrics, self._mask),
            samples=self.samples,
            warnings=(*map(self._mask.hide, self.warnings), *warning_of(disturbance)),
            disturbed=disturbance,
            stages=tuple(masked_stage(stage, self._mask) for stage in in_bounds((*self.stages, *self.named.stages()))),
            changed=tuple(self._mask.hide_lines(self.changed)),
            requirements=masked_checks(self.checks, self._mask),
            ray_version=columns.get("ray_version") or "",
            ray_num_cpus=columns.get("ray_num_cpus"),
            ray_num_gpus=columns.get("ray_num_gpus"),
            directory=str(directory) if directory.exists() else "",
            phases=dict(self._outcomes),
            columns=columns,
        )

    def _set(self, column: str, value: Any) -> None:
        self._columns[column] = value
        if self._row is not None:
            setattr(self._row, column, value)

    def _columns_now(self) -> dict[str, Any]:
        """Return the present columns, including attributes set on the row."""
        if self._row is not None:
            said = {name: getattr(self._row, name) for name in SETTABLE}
            self._columns.update({name: value for name, value in said.items() if value is not None})
        return dict(self._columns)

    def kind_of(self, column: str) -> type[int] | type[float] | type[str]:
        """Return what a column of the row holds."""
        from curator_bench.store.column_types import kind_of

        return kind_of(type(self.row).__mapper__.columns[column].type)

    def _shown_error(self) -> str:
        return shown_error(self.error, self._mask)

    def _shown_params(self) -> dict[str, Any]:
        named = {name: "***" if is_secret_name(name) else value for name, value in self.params.items()}
        shown: dict[str, Any] = masked(named, self._mask)
        return shown


def run_of(item: pytest.Function, definition: Definition | None) -> Run:
    return Run(
        name=own_nodeid(item).partition("::")[2],
        entry=item.originalname,
        nodeid=item.nodeid,
        uid=new_uid(),
        attempt=item.stash.get(_ATTEMPT, 1),
        started_at=datetime.now(UTC).isoformat(),
        session=item.config.stash[BENCHMARKS].settings.session,
        file=name_in_project(item.path, item.config),
        definition_hash=definition.hash if definition else "",
        hunt=hunt_of(item.config),
    )


def _words(command: str | None) -> tuple[str, ...]:
    """Split a command that a fixture set on the row."""
    try:
        return tuple(shlex.split(command or ""))
    except ValueError:
        return (command or "",)


def parameters_of(item: pytest.Function) -> dict[str, Any]:
    """Return the test's parameters, without parts that differ between runs or machines."""
    callspec = getattr(item, "callspec", None)
    params = callspec.params.items() if callspec else ()
    return {name: _parameter_value(value) for name, value in params if name != STEP}


def _parameter_value(value: Any) -> Any:
    if isinstance(value, Entry):
        return value.id
    if isinstance(value, type) or inspect.isroutine(value):
        return value.__qualname__
    return value if isinstance(value, _PLAIN) else _ADDRESS.sub("", repr(value))


def _definition(item: pytest.Function) -> Definition | None:
    callspec = getattr(item, "callspec", None)
    entries = [value for value in callspec.params.values() if isinstance(value, Entry)] if callspec else []
    try:
        source = textwrap.dedent(inspect.getsource(item.function))
    except (OSError, TypeError):  # code made by a program has no source
        return None
    return function_definition(source, parameters_of(item), entries)


class PythonRunHooks:
    """Begins and ends runs. A run is one set-up, call and teardown: plugins that rerun a test do so in one protocol."""

    def __init__(self) -> None:
        self._not_measured = 0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        try:
            with ExitStack() as stack:
                for instrument in instruments_of(item.config):
                    stack.enter_context(instrument.switched_on(item))
                return (yield)
        except (KeyboardInterrupt, pytest.exit.Exception) as stop:
            note_stopped(item, str(stop) or "stopped from outside")
            raise
        finally:
            end(item)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        begin(item)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        run = item.stash.get(PYTHON_RUN, None)
        if run is not None:
            if call.when == "call":
                note_rounds(item, run)
            if report.passed and item.config.stash[BENCHMARKS].settings.fail_on_regression:
                judge(item, run, report)
            note_phase(run, call, report)
            if call.when == "teardown":
                end(item)
                profile(item, run)
        return report

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._not_measured = sum(map(is_switched_off, session.items))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if count := self._not_measured:
            what = f"{count} benchmark{'s were' if count > 1 else ' was'} not measured"
            why = "because pytest-benchmark is switched off; --benchmark-enable switches it on"
            terminalreporter.write_line(f"{what}, {why}", yellow=True)


def begin(item: pytest.Item) -> None:
    """Begin the run of an item that is a benchmark."""
    if not is_benchmark(item):
        return
    if (recording := recording_of(item.config)) is not None:
        item.stash[_ATTEMPT] = item.stash.get(_ATTEMPT, 0) + 1
        item.stash[PYTHON_RUN] = run = PythonRun(item, recording)
        stages.listen(run.named)


def is_benchmark(item: pytest.Item) -> TypeGuard[pytest.Function]:
    """Return whether an item is measured: by our fixtures, or by another plugin."""
    if not isinstance(item, pytest.Function):
        return False
    is_ours = not MEASURING.isdisjoint(item.fixturenames)
    return is_ours or any(instrument.measures(item) for instrument in instruments_of(item.config))


def note_rounds(item: pytest.Item, run: PythonRun) -> None:
    for instrument in instruments_of(item.config):
        if (rounds := instrument.rounds(item)) is not None:
            run.note_rounds(rounds)


def note_stopped(item: pytest.Item, why: str) -> None:
    """Note and show that the run in progress is stopped from outside."""
    if (run := item.stash.get(PYTHON_RUN, None)) is not None:
        run.note_verdict(Verdict.INTERRUPTED, why)
        if (report := item.config.pluginmanager.get_plugin(REPORT)) is not None:
            report.note_interrupted(run.so_far())


def end(item: pytest.Item) -> None:
    """Record the run of the item, unless its end is recorded already."""
    if (run := item.stash.get(PYTHON_RUN, None)) is not None:
        stages.listen(None)
        del item.stash[PYTHON_RUN]
        run.record()


def profile(item: pytest.Item, run: PythonRun) -> None:
    """Profile a recorded run, if that was asked for."""
    if not item.config.stash[BENCHMARKS].settings.profilers:
        return
    from curator_bench.runner.python_profiles import profiles_of

    if profiles := profiles_of(item, run):
        run.record(profiles)


def judge(item: pytest.Item, run: PythonRun, report: pytest.TestReport) -> None:
    """Judge a passed test by its history, for `--bench-fail-on regression`: metrics that no phase before had."""
    new = {name: value for name, value in run.metrics.items() if name not in run.judged}
    machine = {name: value for name, value in run.metrics.items() if name.startswith(MACHINE)}
    if report.when == "setup" or run.verdict is not Verdict.PASSED or not new:
        return
    run.judged.update(new)
    outcome = Judge(item.config, None, lambda: _gates_of(item, run)).of_last(
        replace(run.result(), metrics=new | machine)
    )
    run.checks, run.warnings = (*run.checks, *outcome.checks), list(outcome.result.warnings)
    run.changed = outcome.result.changed
    if outcome.verdict is Verdict.FAILED:
        changed = changes_texts(run.changed, outcome.commands)
        report.outcome, report.longrepr = "failed", "\n\n".join([*outcome.texts, *changed])
        run.note_verdict(Verdict.FAILED, report.longrepr)


def _gates_of(item: pytest.Item, run: PythonRun) -> Gates:
    from curator_bench.runner.gates import Gates

    return Gates(item.config, run.origin, (), background=lambda: run.background)


def note_phase(run: PythonRun, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Note the end of set-up, call or teardown. The report of the phase that decides carries the run."""
    run.note_phase(call.when, report.outcome, report.duration)
    if not report.passed:
        run.note_verdict(verdict_of(call, report), error_of(call, report))
    if call.when == "call" or not report.passed:
        vars(report)["curator_bench"] = to_document(run.so_far())
