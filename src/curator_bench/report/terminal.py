"""The lines of a session on the terminal: runs that start, run and end, and the table at the end."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from curator_bench.report.live import LiveLines
    from curator_bench.report.progress_output import ProgressOutput
    from curator_bench.values import OpenFinding, RunRecord

_MARKS = {"passed": "✅", "skipped": "⏭ "}
_LOST = "???"
"""The phase of the report pytest-xdist makes for the item of a worker that died."""
_OUTCOMES = ("passed", "failed", "skipped")
_LETTERS = {"failed": "F", "crashed": "C", "timeout": "T", "error": "E", "interrupted": "I"}


class TerminalReport:
    """A plugin of the controller that collects runs from test reports and shows them.

    With -q it leaves progress to pytest's letters and adds warnings; with -v pytest's own lines serve, and with workers
    those of a plugin that replaced pytest's. Otherwise each run gets lines of its own.
    """

    def __init__(
        self,
        terminal: TerminalReporter,
        session_dir: Path,
        entry_dirs: Mapping[str, Path],
        output: ProgressOutput,
        named: Mapping[str, Sequence[str]],
        database: str | None = None,
        apart: str = "",
        findings: Callable[[], Sequence[OpenFinding]] = tuple,
    ) -> None:
        """`entry_dirs` holds the folder of each item that runs an entry, by node id; its status is there.

        `named` are metrics that sinks name, which are shown first. `database` is shown at the end, and why
        its runs are no history (`apart`). `findings` looks up the open findings of what ran.
        """
        self._findings = findings
        self._named = named
        self._database = database
        self._apart = apart
        self.unfit = ""
        """Conditions of this machine that make measurements scatter; empty if none is known."""
        self._output = output
        self._progress = output.progress
        self._terminal = terminal
        self._session_dir = session_dir
        self._entry_dirs = entry_dirs
        self._began = datetime.now(UTC)
        self._runs: list[RunRecord] = []
        self.done_before: list[RunRecord] = []
        """Runs of the session that are not repeated."""
        self._elsewhere: dict[str, str] = {}
        """Reasons why another invocation of the session has an item, by node id."""
        self._open: dict[str, datetime] = {}
        """The start time of each run in progress."""
        self._started = False
        self._live: LiveLines | None = None
        self._speaks = bool(entry_dirs) and terminal.verbosity == 0 and not _moves_the_cursor(terminal)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._progress.expect(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Iterable[str]) -> None:
        self._progress.expect(ids)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> Generator[None]:
        speaks = self._speaks_of(nodeid)
        is_new = nodeid not in self._open
        self._pause()
        self._terminal.showfspath = False if speaks else None
        yield
        if nodeid in self._entry_dirs and is_new:
            self._begin(nodeid)

    def note_started(self, nodeid: str, host: str, gpus: Sequence[str]) -> None:
        """Note that a run or another attempt has started in a fleet, before pytest comes to its item."""
        self._pause()
        self._begin(nodeid, host, gpus)

    def note_elsewhere(self, nodeid: str, why: str) -> None:
        """Note that another invocation runs the item, so it is skipped here."""
        self._elsewhere[nodeid] = why
        self._progress.note_elsewhere(nodeid)

    def note_status(self, nodeid: str, status: Mapping[str, Any]) -> None:
        """Show the state of a run in a fleet."""
        self._progress.note_status(nodeid, status)

    def note_waiting(self, nodeid: str, why: str) -> None:
        """Note that an attempt in a fleet has ended and its run waits for another."""
        self._pause()
        self._progress.wait_again(nodeid)
        if self._speaks_of(nodeid):
            self._line(f"    Once more {nodeid.partition('::')[2]}: {why}")
        self._resume()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None]:
        self._pause()
        if (elsewhere := getattr(report, "curator_bench_elsewhere", None)) is not None:
            self.note_elsewhere(report.nodeid, elsewhere)
        if report.when == _LOST and report.nodeid in self._open:
            self._note_lost(report)
        self.note_run(report)
        if report.when != "setup" or not report.passed:
            self._close(report.nodeid, "error" if report.failed else report.outcome)
        yield
        self._resume()

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Show a failed run by its verdict, as word and letter. Other outcomes keep pytest's words."""
        run = getattr(report, "curator_bench", None)
        if run is None and report.skipped and report.nodeid in self._elsewhere:
            return "left to others", "" if self._speaks_of(report.nodeid) else "e", "ELSEWHERE"
        if run is None or report.when in ("setup", "teardown"):
            return None
        if report.outcome not in _OUTCOMES:  # of another plugin, such as `rerun`, which words it
            return (report.outcome, "", report.outcome.upper()) if self._speaks_of(report.nodeid) else None
        from curator_bench.report.session_runs import is_of_subtest

        if is_of_subtest(report):
            return None
        if report.nodeid not in self._entry_dirs and not report.failed:  # a Python benchmark, maybe an expected failure
            return None
        letter = _LETTERS.get(run["verdict"]) if report.failed else {"passed": ".", "skipped": "s"}.get(report.outcome)
        category = "failed" if report.failed else report.outcome
        return category, "" if self._speaks_of(report.nodeid) else letter or "F", str(run["verdict"]).upper()

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_html(self, report: pytest.TestReport, data: list[str]) -> None:
        """Put verdict and metrics of a run above its output in the report of pytest-html."""
        from curator_bench.report.session_runs import run_on
        from curator_bench.report.summary import html_lines

        if (run := run_on(report)) is not None:
            data[:0] = html_lines(run)

    def _speaks_of(self, nodeid: str) -> bool:
        return self._speaks and nodeid in self._entry_dirs

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter, exitstatus: int) -> None:
        if not self._runs and not self.done_before and not self._elsewhere:
            return
        from curator_bench.report.summary import finding_lines, lost_lines, warning_lines

        self._pause()
        if terminalreporter.verbosity >= 0:
            terminalreporter.write_sep("=", "benchmarks")
        lines = {0: self._table(), -1: warning_lines(self._runs)}.get(min(terminalreporter.verbosity, 0), ())
        for line in lines:
            terminalreporter.write_line(line)
        for line in lost_lines(self._runs):
            terminalreporter.write_line(line, red=True)
        for line in finding_lines(self._findings()):
            terminalreporter.write_line(line, yellow=True)
        for line in self._places():
            terminalreporter.write_line(line)
        if exitstatus == pytest.ExitCode.INTERRUPTED and self._entry_dirs:
            session = shlex.quote(self._session_dir.name)
            terminalreporter.write_line(f"To continue: the same command with --bench-resume --bench-session {session}")

    def _table(self) -> list[str]:
        """Return the table of runs, and how many other runs the session has."""
        from curator_bench.report.summary import summary_table

        lines = [*summary_table(self._runs, self._named)] if self._runs else []
        if self.done_before:
            lines.append(_done_before(self.done_before))
        return [*lines, *self._left_to_others()]

    def _left_to_others(self) -> list[str]:
        if not self._elsewhere:
            return []
        left = f"{'1 entry was' if len(self._elsewhere) == 1 else f'{len(self._elsewhere)} entries were'} left"
        running = len(self._progress.now().running_elsewhere)
        return [f"{left} to other invocations{f', which still run {running} of them' if running else ''}"]

    def _places(self) -> list[str]:
        from curator_bench.words import printable

        found = [f"Session: {self._session_dir}"]
        if self._database:
            found.append(f"Database: {self._database}")
            found += [f"No part of the history: {self._apart}"] if self._apart else []
            found += [f"warning: {self.unfit}"] if self.unfit else []
        return list(map(printable, found))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self._pause()
        if self._live is not None:
            self._live.close()
        self._runs += self._interrupted_elsewhere()
        self._end_progress()
        if self._runs or self.done_before:
            from curator_bench.report.summary import write_summary

            try:
                write_summary(self._session_dir, [*self.done_before, *self._runs], self._findings())
            except OSError as error:
                self._terminal.write_line(f"summary.json could not be written: {error}", red=True)

    def note_run(self, report: pytest.TestReport) -> None:
        from curator_bench.report.session_runs import run_on

        if (run := run_on(report)) is not None:
            self._end(report, run)

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """The runs so far. At the end of the session they include interrupted ones."""
        return tuple(self._runs)

    def say(self, text: str) -> None:
        """Print a line at once, between two items or during one."""
        self._pause()
        if self._terminal.verbosity >= 0:
            self._line(text)
        self._resume()

    def note_interrupted(self, run: RunRecord) -> None:
        """Note a run ended by Ctrl-C, which gets no test report."""
        self._runs.append(run)

    def _interrupted_elsewhere(self) -> list[RunRecord]:
        """Return runs of workers that Ctrl-C ended without a report, from the results files they wrote."""
        from curator_bench.report.summary import read_results

        known = {run.nodeid for run in self._runs}
        found = [read_results(self._entry_dirs[nodeid], self._began) for nodeid in self._open]
        return [run for run in found if run is not None and run.nodeid not in known]

    def _note_lost(self, report: pytest.TestReport) -> None:
        """Make a record for a run whose worker died."""
        from curator_bench.files.codec import to_document
        from curator_bench.values import RunRecord, Verdict

        name, now = report.nodeid.partition("::")[2], datetime.now(UTC)
        run = RunRecord(
            name=name,
            entry=name.partition("[")[0],
            nodeid=report.nodeid,
            verdict=Verdict.INTERRUPTED,
            error=report.longreprtext,
            started_at=self._open[report.nodeid].isoformat(timespec="milliseconds"),
            ended_at=now.isoformat(timespec="milliseconds"),
            duration_s=(now - self._open[report.nodeid]).total_seconds(),
            directory=str(self._entry_dirs[report.nodeid]),
        )
        vars(report)["curator_bench"] = to_document(run)

    def _begin(self, nodeid: str, host: str = "", gpus: Sequence[str] = ()) -> None:
        is_new = nodeid not in self._open
        self._open.setdefault(nodeid, datetime.now(UTC))
        if nodeid not in self._elsewhere:
            self._progress.begin(nodeid, host, gpus)
        self._start()
        if is_new and self._speaks_of(nodeid):
            self._line(f"    {self._what_begins(nodeid, host, gpus)}")
        self._resume()

    def _what_begins(self, nodeid: str, host: str, gpus: Sequence[str]) -> str:
        from curator_bench.report.progress_output import where

        if nodeid in self._elsewhere:
            return f"Not run here: {self._elsewhere[nodeid]}"
        return f"Running {nodeid.partition('::')[2]}{where(host, gpus)}"

    def _start(self) -> None:
        if self._started:
            return
        self._started = True
        self._progress.note_done_before(self.done_before)
        self._output.start()
        if self._speaks:
            self._line(f"Started session {self._session_dir.name}")
        self._start_lines()

    def _end_progress(self) -> None:
        """Close the progress, including runs that were stopped without a report."""
        if self._terminal.config.option.collectonly:
            return
        if not self._started:
            self._progress.note_done_before(self.done_before)
        for run in self._runs:
            self._progress.end(run.nodeid, run.verdict, run)
        self._output.close()

    def _end(self, report: pytest.TestReport, run: RunRecord) -> None:
        from curator_bench.words import readable_seconds

        if report.when == "teardown":  # until now it counted as passed
            self._runs = [earlier for earlier in self._runs if (earlier.nodeid, earlier.uid) != (run.nodeid, run.uid)]
        self._runs.append(run)
        self._progress.end(report.nodeid, run.verdict, run)
        self._close(report.nodeid, run.verdict)
        if self._speaks_of(report.nodeid):
            mark = _MARKS.get(run.verdict, "❌")
            self._line(f"        {mark} {run.name}: {run.verdict} in {readable_seconds(run.measured_s)}")
            if run.log_path:
                self._line(f"        Logs: {run.log_path}")

    def _close(self, nodeid: str, verdict: str) -> None:
        """Note that an item has ended. `verdict` counts for an item without a run."""
        self._open.pop(nodeid, None)
        self._progress.end(nodeid, verdict)

    def _start_lines(self) -> None:
        """Start the live lines, or the lines of a pipe. Not with -q."""
        if self._terminal.verbosity < 0 or (out := self._own_way_to_the_terminal()) is None:
            return
        if self._speaks and self._may_redraw():
            from curator_bench.report.live import LiveLines

            self._live = LiveLines(out, self._output.screen)
        else:
            self._output.start_lines(out, lambda: bool(self._terminal._tw.width_of_current_line))

    def _may_redraw(self) -> bool:
        """True if the terminal can redraw, and no test writes to it as well."""
        is_terminal = sys.__stdout__ is not None and sys.__stdout__.isatty()
        can = os.environ.get("TERM", "dumb") != "dumb" and self._terminal.config.getoption("capture") != "no"
        return is_terminal and can

    def _own_way_to_the_terminal(self) -> TextIO | None:
        """Duplicate the terminal's descriptor: while an item runs, pytest captures standard output."""
        theirs = self._terminal._tw._file
        try:
            return open(os.dup(theirs.fileno()), "w", encoding=theirs.encoding, errors="replace")
        except OSError:  # there is no file, as when a program calls pytest
            return None

    def _line(self, text: str) -> None:
        from curator_bench.words import printable_lines

        self._terminal.ensure_newline()
        if self._terminal._tw.width_of_current_line:  # another plugin's reporter may be amid a line that it renews
            self._terminal._tw.line()
        self._terminal.write_line(printable_lines(text))

    def _pause(self) -> None:
        if self._live is not None:
            self._live.pause()

    def _resume(self) -> None:
        """Draw the live lines again, after pytest's output, unless the cursor is behind letters of other tests."""
        self._terminal.flush()
        if self._live is not None and not self._terminal._tw.width_of_current_line:
            self._live.resume()


def _moves_the_cursor(terminal: TerminalReporter) -> bool:
    """True if lines of ours would be overwritten: with workers, pytest-sugar goes back to the line of another file."""
    from _pytest.terminal import TerminalReporter

    return type(terminal) is not TerminalReporter and bool(terminal.config.getoption("tx", None))


def _done_before(runs: Sequence[RunRecord]) -> str:
    """Return a line such as `3 entries were done before (2 passed, 1 failed)`."""
    verdicts = Counter(str(run.verdict) for run in runs)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    return f"{'1 entry was' if len(runs) == 1 else f'{len(runs)} entries were'} done before ({counts})"
