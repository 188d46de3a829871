"""--bench-resume: finds finished entries of a session in its folder and, with --benchmark, in its database.

If the two disagree, or the entry has changed, it runs again, and the reason is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from curator_bench.collection.benchmarks import BENCHMARKS, REPORT
from curator_bench.collection.items import MatrixModule, entry_of
from curator_bench.errors import BenchError
from curator_bench.matrix import Definitions
from curator_bench.options.rootdir import name_in_project
from curator_bench.report.session_runs import RESULTS, why_broken
from curator_bench.runner.claiming import NOT_HERE, await_a_sign, claim, in_words, release, silence_of
from curator_bench.runner.recording import recording_of
from curator_bench.runner.resume_rules import (
    KEPT,
    RecordedRun,
    disagreement,
    only_recorded,
    read_run,
    take_pending,
    why_again,
)
from curator_bench.runner.session import hunt_of
from curator_bench.values import RunRecord

_MOST_LINES = 20
_MOST_NAMES = 3


@dataclass(slots=True)
class Done:
    """The entries that need not run, and those that run again in spite of earlier results."""

    runs: dict[str, RunRecord] = field(default_factory=dict)
    """The finished runs by entry id."""
    again: dict[str, str] = field(default_factory=dict)
    """The reasons to run again, by entry id."""
    doubted: set[str] = field(default_factory=set)
    """The uids of runs that are not trusted."""


class ResumeHooks:
    """The hooks of --bench-resume. A worker of pytest-xdist takes over what the controller found."""

    def __init__(self, config: pytest.Config) -> None:
        self._benchmarks = config.stash[BENCHMARKS]
        self._found = Done()
        self._silent: dict[pytest.Item, str] = {}
        """Items claimed by a machine that may be dead, with the reason why they come last."""
        self._is_worker = hasattr(config, "workerinput")
        if not self._is_worker:
            self._found = find_done(config)
            self._benchmarks.done = frozenset(self._found.runs)
            self._benchmarks.doubted = frozenset(self._found.doubted)
            if (report := config.pluginmanager.get_plugin(REPORT)) is not None:
                report.done_before = list(self._found.runs.values())

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        done = [item for item in items if (entry := entry_of(item)) and entry.id in self._benchmarks.done]
        if done:
            config.hook.pytest_deselected(items=done)
            quarantine = set(done)
            items[:] = [item for item in items if item not in quarantine]
        if not self._is_worker:
            self._put_off(config, items)

    def _put_off(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Move entries claimed by a machine that may be dead to the end. By then its state is known."""
        for item in items:
            if (entry := entry_of(item)) and (silence := silence_of(config, entry)):
                self._silent[item] = f"{entry.id} is {in_words(silence)}"
        items.sort(key=self._silent.__contains__)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Claim the entry before its item, so that waiting does not count as the item's time."""
        entry = entry_of(item) if isinstance(item.parent, MatrixModule) and not self._is_worker else None
        if entry is None:
            return (yield)
        report = item.config.pluginmanager.get_plugin(REPORT)
        if self._benchmarks.settings.fleet is None:  # a fleet has claimed it and does not wait
            if item in self._silent:
                await_a_sign(item.config, entry, report.say if report is not None else lambda _: None)
            with suppress(BenchError):  # raised again when the item runs
                claim(item, entry)
        if report is not None and NOT_HERE in item.stash:
            report.note_elsewhere(item.nodeid, item.stash[NOT_HERE])
        try:
            return (yield)
        finally:
            release(item, entry)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Tell the controller of pytest-xdist that another invocation has the entry."""
        report = yield
        if report.skipped and NOT_HERE in item.stash:
            vars(report)["curator_bench_elsewhere"] = item.stash[NOT_HERE]
        return report

    def pytest_report_collectionfinish(
        self, config: pytest.Config, items: Sequence[pytest.Item] | None = None
    ) -> list[str]:
        """Show what is done and what runs again. Of entries that run again, only those of `items` are shown."""
        verbose = config.get_verbosity() > 0
        found = self._found
        if items is not None:
            chosen = {entry.id for item in items if (entry := entry_of(item))}
            found = replace(found, again={name: why for name, why in found.again.items() if name in chosen})
        lines = list(summary_lines(found, self._benchmarks.session_dir, len(self._benchmarks.matrix.entries), verbose))
        silent = list(self._silent.values())
        shown = silent if verbose else silent[:_MOST_LINES]
        more = [f"  … and {len(silent) - len(shown)} more (-v lists them)"] if len(silent) > len(shown) else []
        return [*lines, *(f"  {line}" for line in shown), *more]

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self, config: pytest.Config) -> None:
        """Show the same with workers, when pytest does not report the collection."""
        if (terminal := config.pluginmanager.get_plugin("terminalreporter")) is not None:
            for line in self.pytest_report_collectionfinish(config):
                terminal.write_line(line)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Correct the exit code: 0 if nothing was left to run, 1 if a kept run did not pass."""
        if hasattr(session.config, "workerinput") or exitstatus not in (pytest.ExitCode.NO_TESTS_COLLECTED, 0):
            return
        if any(not run.passed for run in self._found.runs.values()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        elif self._found.runs:
            session.exitstatus = pytest.ExitCode.OK


def find_done(config: pytest.Config) -> Done:
    """Find the finished runs of all entries."""
    benchmarks = config.stash[BENCHMARKS]
    kept = KEPT[benchmarks.settings.resume or "passed"]
    recorded, hunt = recorded_runs(config), hunt_of(config)
    files = {name: path for path, name in recorded or ()}
    definitions, found = Definitions(), Done()
    for entry in benchmarks.matrix.entries:
        directory = benchmarks.session_dir.joinpath(*entry.folder)
        key = name_in_project(entry.file.file, config), entry.id
        run = take_pending(directory, (recorded or {}).get(key)) or read_run(directory, hunt)
        why = why_again(entry, run, kept, definitions.hash_of(entry))
        if run is not None and why is None:
            why = disagreement(run, recorded, key, files)
        if run is not None and why is None:
            found.runs[entry.id] = run
        elif why := why or only_recorded(run, recorded, key, kept, "" if run else why_broken(directory / RESULTS)):
            found.again[entry.id] = why
            found.doubted.update([run.uid] if run else [])
    return found


def recorded_runs(config: pytest.Config) -> dict[tuple[str, str], RecordedRun] | None:
    """Return the newest recorded runs by file and entry id, or None without --benchmark."""
    recording = recording_of(config)
    if recording is None:
        return None
    from curator_bench.store.latest import latest_of_session

    with recording.database.reading() as connection:
        found = latest_of_session(connection, recording.recorder.session.uid, hunt_of(config) or None)
    return {key: RecordedRun(*row) for key, row in found.items()}


def summary_lines(found: Done, directory: Path, total: int, verbose: bool) -> Iterator[str]:
    """Yield lines for the user: the finished runs with time and host, and the reasons to run again."""
    if not found.runs and not found.again:
        yield (
            f"resume: no entry of {directory} is done"
            if directory.exists()
            else f"resume: {directory} is a new session"
        )
        return
    verdicts = Counter(str(run.verdict) for run in found.runs.values())
    hosts = Counter(run.host or "?" for run in found.runs.values())
    ended = sorted(run.ended_at for run in found.runs.values())
    when = f", {_minute(ended[0])} to {_minute(ended[-1])}, on {_few(hosts)}" if ended else ""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    yield f"resume: {len(found.runs)} of {total} entries are done in {directory}" + (
        f" ({counts}{when})" if found.runs else ""
    )
    if verbose:
        for name, run in found.runs.items():
            yield f"  {name}: {run.verdict} {_minute(run.ended_at)} on {run.host or '?'}"
    again = list(_rerun_lines(found.again, verbose))
    yield from again if verbose else again[:_MOST_LINES]
    if not verbose and len(again) > _MOST_LINES:
        yield f"  … and {len(again) - _MOST_LINES} more run again (-v lists them)"


def _rerun_lines(again: Mapping[str, str], verbose: bool) -> Iterator[str]:
    """Yield a line for each reason, or with -v for each entry."""
    by_reason: dict[str, list[str]] = {}
    for name, why in again.items():
        by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        if verbose or len(names) <= _MOST_NAMES:
            yield from (f"  {name} runs again: {why}" for name in names)
        else:
            yield f"  {', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more run again: {why}"


def _few(hosts: Iterable[str]) -> str:
    names = list(hosts)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _minute(stamp: str) -> str:
    return stamp[:16].replace("T", " ")
