"""Hooks of curator-bench that a conftest or another plugin may implement. They are stable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from curator_bench.values import Plan, RunResult


@pytest.hookspec(firstresult=True)
def pytest_bench_plan(item: pytest.Item, plan: Plan) -> Plan | None:
    """A run is about to start: look at its plan, or return another (`dataclasses.replace(plan, …)`)."""


def pytest_bench_run_started(item: pytest.Item, plan: Plan) -> None:
    """A run has started, in the process that runs the item."""


def pytest_bench_run_finished(item: pytest.Item, result: RunResult) -> None:
    """A run has ended and been judged, in the process that runs the item."""
