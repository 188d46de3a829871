"""A plain `pytest` in a project with tests of its own: benchmarks are left out, with a message."""

from __future__ import annotations

import os
from typing import Any

import pytest

from curator_bench import interrupts
from curator_bench.collection.benchmarks import BENCHMARKS
from curator_bench.collection.items import MatrixModule
from curator_bench.errors import BenchError
from curator_bench.runner import controller
from curator_bench.runner.hooks import begin

_OUTPUT = "curator_bench_left_out"


class PlainRun:
    """Hooks for matrices that nothing asks for."""

    def __init__(self, config: pytest.Config) -> None:
        self._benchmarks = config.stash[BENCHMARKS]
        self._config = config
        self._left_out = 0
        self._are_mistakes_said = False
        self._files = config.stash[BENCHMARKS].matrix.files
        controller.announce(config)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Leave benchmarks out, unless nothing else was collected."""
        left_out = [item for item in items if isinstance(item.parent, MatrixModule)]
        if len(left_out) < len(items) or session.testsfailed:
            self._leave_out(items, left_out)
        elif self._benchmarks.mistakes and not hasattr(self._config, "workerinput"):
            self._are_mistakes_said = True
            raise pytest.UsageError(self._benchmarks.mistakes)
        elif left_out:
            self._begin()
        if not left_out or self._left_out:
            interrupts.give_back()

    def _leave_out(self, items: list[pytest.Item], left_out: list[pytest.Item]) -> None:
        if left_out:
            self._left_out = len(left_out)
            self._config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if not isinstance(item.parent, MatrixModule)]
        self._benchmarks.leave_out()

    def _begin(self) -> None:
        self._benchmarks.is_asked_for = True
        try:
            begin(self._config)
        except BenchError as error:
            raise pytest.UsageError(str(error)) from None

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if hasattr(self._config, "workerinput"):
            vars(self._config)["workeroutput"][_OUTPUT] = self._left_out
        elif self._benchmarks.mistakes and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR  # workers found nothing else either

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._left_out = max(self._left_out, getattr(node, "workeroutput", {}).get(_OUTPUT, 0))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
        if self._are_mistakes_said:
            return
        if self._benchmarks.mistakes and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            terminalreporter.write_line(f"ERROR: {self._benchmarks.mistakes}", red=True)
        elif self._benchmarks.mistakes:
            reason = " ".join(line.strip() for line in self._benchmarks.mistakes.splitlines()[:2])
            terminalreporter.write_line(f"Benchmarks were not run: {reason}", yellow=True)
        elif self._left_out:
            count = f"{self._left_out} benchmark{'s were' if self._left_out > 1 else ' was'} not run"
            terminalreporter.write_line(f"{count}; to run them: `pytest {self._where}` or `pytest --benchmark`")

    @property
    def _where(self) -> str:
        """The folder of the matrices, relative to the working folder."""
        folders = {file.directory for file in self._files}
        return os.path.relpath(os.path.commonpath(folders), self._config.invocation_params.dir)
