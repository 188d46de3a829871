"""The hooks of recording, registered only with --benchmark: they note the ends of runs, workers and the invocation."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from curator_bench.runner import entry_record, recorder

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

_OUTPUT = "curator_bench_problems"


class RecordingHooks:
    """Hooks of recording. In the controller they open the database at once, to report problems before anything runs."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._is_worker = hasattr(config, "workerinput")
        self._problems: list[str] = []
        if not self._is_worker:
            recorder.begin(config)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "teardown":
            entry_record.note_teardown(item, report.outcome)
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if self._is_worker:
            vars(self._config)["workeroutput"][_OUTPUT] = list(recorder.problems(self._config))
        else:
            recorder.finish(self._config, int(exitstatus))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._problems += getattr(node, "workeroutput", {}).get(_OUTPUT, [])

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        for problem in dict.fromkeys([*self._problems, *recorder.problems(self._config)]):
            terminalreporter.write_line(problem, red=True)
