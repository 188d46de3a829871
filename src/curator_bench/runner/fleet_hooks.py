"""The hooks of a session with a fleet, registered only with --bench-fleet: its loop, and the time of runs elsewhere."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from curator_bench.errors import BenchError
from curator_bench.runner.fleet_items import Items
from curator_bench.runner.fleet_loop import FLEET, FleetLoop
from curator_bench.runner.running import ARRIVED


class FleetHooks:
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Entries in the fleet, then all other items as ever, one by one. What is not run is pytest's own to say."""
        items = Items(session)
        has_errors = session.testsfailed and not session.config.option.continue_on_collection_errors
        if has_errors or session.config.option.collectonly or not items.of_the_fleet:
            return None
        try:
            FleetLoop(session, items).run()
        except BenchError as error:
            raise pytest.UsageError(str(error)) from None
        items.run_others()
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Where it would have been run, its time belongs to set-up too: --durations and junit tell the same."""
        report = yield
        if call.when == "setup" and ARRIVED in item.stash:
            report.duration += item.stash[ARRIVED].duration_s
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        if FLEET in config.stash:
            for line in config.stash[FLEET].quarantine.lines():
                terminalreporter.write_line(line, yellow=True)
