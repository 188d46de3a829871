"""Calls the hook `pytest_bench_session_summary` if it is implemented, and shows the lines it returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from curator_bench.words import printable

if TYPE_CHECKING:
    from curator_bench.report.terminal import TerminalReport


class SummaryHook:
    """A plugin of the controller. Its lines follow the table of runs."""

    def __init__(self, config: pytest.Config, report: TerminalReport) -> None:
        self._config, self._report = config, report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._report.runs and self._config.hook.pytest_bench_session_summary.get_hookimpls():
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
