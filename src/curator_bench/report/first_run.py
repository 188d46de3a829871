"""Notices the first run of an invocation whose command line names no matrix: a Python benchmark may name one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from curator_bench.report.terminal import TerminalReport


class FirstRun:
    """A plugin of the controller: it hands over to the report of runs, of which most projects never need to hear."""

    def __init__(self, plugins: pytest.PytestPluginManager, show_runs: Callable[[], TerminalReport]) -> None:
        self._plugins = plugins
        self._show_runs = show_runs

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if hasattr(report, "curator_bench"):
            self._plugins.unregister(self)
            self._show_runs().note_run(report)
