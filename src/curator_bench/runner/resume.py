"""--bench-resume: which entries of a session are done already, by its directory and, with --benchmark, its database.

Where the two do not agree, or the entry is not what it was, it runs again, and that is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from curator_bench.collection import BENCHMARKS, REPORT, MatrixModule, entry_of
from curator_bench.errors import BenchError
from curator_bench.matrix import Definitions
from curator_bench.report.session_runs import RESULTS, why_broken
from curator_bench.rootdir import name_in_project
from curator_bench.runner.claiming import NOT_HERE, await_a_sign, claim, in_words, release, silence_of
from curator_bench.runner.kept_runs import (
    KEPT,
    RecordedRun,
    disagreement,
    only_recorded,
    read_run,
    take_pending,
    why_again,
)
from curator_bench.runner.recorder import recording_of
from curator_bench.values import RunRecord

_MOST_LINES = 20
_MOST_NAMES = 3


@dataclass(slots=True)
class Done:
    """What need not run, and what must run although something is there."""

    runs: dict[str, RunRecord] = field(default_factory=dict)
    """By the entry's id: its results.json."""
    again: dict[str, str] = field(default_factory=dict)
    """By the entry's id: why it runs again."""
    doubted: set[str] = field(default_factory=set)
    """The uids of those."""


class ResumeHooks:
    """Registered with --bench-resume. In a worker of pytest-xdist the controller has said what is done."""

    def __init__(self, config: pytest.Config) -> None:
        self._benchmarks = config.stash[BENCHMARKS]
        self._found = Done()
        self._silent: dict[pytest.Item, str] = {}
        """Why they come last."""
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
        """Entries that another machine claimed, and may have died with, come last: by then it is known."""
        for item in items:
            if (entry := entry_of(item)) and (silence := silence_of(config, entry)):
                self._silent[item] = f"{entry.id} is {in_words(silence)}"
        items.sort(key=self._silent.__contains__)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Before the item, and so no part of its time: whether it is ours to run is known when it is said to run."""
        entry = entry_of(item) if isinstance(item.parent, MatrixModule) and not self._is_worker else None
        if entry is None:
            return (yield)
        report = item.config.pluginmanager.get_plugin(REPORT)
        if self._benchmarks.settings.fleet is None:  # which has claimed it, and something better to do than to wait
            if item in self._silent:
                await_a_sign(item.config, entry, report.say if report is not None else lambda _: None)
            with suppress(BenchError):  # which the item raises in its turn
                claim(item, entry)
        if report is not None and NOT_HERE in item.stash:
            report.note_elsewhere(item.nodeid, item.stash[NOT_HERE])
        try:
            return (yield)
        finally:
            release(item, entry)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """The controller of pytest-xdist hears by it that the entry is another invocation's."""
        report = yield
        if report.skipped and NOT_HERE in item.stash:
            vars(report)["curator_bench_elsewhere"] = item.stash[NOT_HERE]
        return report

    def pytest_report_collectionfinish(
        self, config: pytest.Config, items: Sequence[pytest.Item] | None = None
    ) -> list[str]:
        """What runs again is told of `items`, where there are any."""
        verbose = config.get_verbosity() > 0
        found = self._found
        if items is not None:
            chosen = {entry.id for item in items if (entry := entry_of(item))}
            found = replace(found, again={name: why for name, why in found.again.items() if name in chosen})
        lines = list(told(found, self._benchmarks.session_dir, len(self._benchmarks.matrix.entries), verbose))
        silent = list(self._silent.values())
        shown = silent if verbose else silent[:_MOST_LINES]
        more = [f"  … and {len(silent) - len(shown)} more (-v lists them)"] if len(silent) > len(shown) else []
        return [*lines, *(f"  {line}" for line in shown), *more]

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self, config: pytest.Config) -> None:
        """Where workers collect, the controller reports no collection."""
        if (terminal := config.pluginmanager.get_plugin("terminalreporter")) is not None:
            for line in self.pytest_report_collectionfinish(config):
                terminal.write_line(line)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Nothing left to run is what one resumes for; what is kept and did not pass stays a failure."""
        if hasattr(session.config, "workerinput") or exitstatus not in (pytest.ExitCode.NO_TESTS_COLLECTED, 0):
            return
        if any(not run.passed for run in self._found.runs.values()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        elif self._found.runs:
            session.exitstatus = pytest.ExitCode.OK


def find_done(config: pytest.Config) -> Done:
    """Looks at every entry of the matrices."""
    benchmarks = config.stash[BENCHMARKS]
    kept = KEPT[benchmarks.settings.resume or "passed"]
    recorded = recorded_runs(config)
    files = {name: path for path, name in recorded or ()}
    definitions, found = Definitions(), Done()
    for entry in benchmarks.matrix.entries:
        directory = benchmarks.session_dir.joinpath(*entry.folder)
        key = name_in_project(entry.file.file, config), entry.id
        run = take_pending(directory, (recorded or {}).get(key)) or read_run(directory)
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
    """By path and name; None without --benchmark."""
    recording = recording_of(config)
    if recording is None:
        return None
    from curator_bench.store.latest import latest_of_session

    with recording.database.reading() as connection:
        found = latest_of_session(connection, recording.recorder.session.uid)
    return {key: RecordedRun(*row) for key, row in found.items()}


def told(found: Done, directory: Path, total: int, verbose: bool) -> Iterator[str]:
    """For people: what is done, when and where; what runs again and why."""
    if not found.runs and not found.again:
        yield f"resume: nothing of {directory} is done"
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
    again = list(_told_again(found.again, verbose))
    yield from again if verbose else again[:_MOST_LINES]
    if not verbose and len(again) > _MOST_LINES:
        yield f"  … and {len(again) - _MOST_LINES} more run again (-v lists them)"


def _told_again(again: Mapping[str, str], verbose: bool) -> Iterator[str]:
    """A line for each reason; with -v for each entry."""
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
