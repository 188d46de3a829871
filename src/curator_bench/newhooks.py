"""Hooks of curator-bench that a conftest or another plugin may implement. They are stable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from curator_bench.values import Plan, RunRecord, RunResult, Session


@pytest.hookspec(firstresult=True)
def pytest_bench_plan(item: pytest.Item, plan: Plan) -> Plan | None:
    """Look at the plan of a run that is about to start, or return another one (`dataclasses.replace(plan, …)`).

    Use it to give a run your own samplers (`samplers`) or a cluster from elsewhere (`cluster_provider`); see
    docs/extending.md.
    """


def pytest_bench_run_started(item: pytest.Item, plan: Plan) -> None:
    """A run has started. Called in the process that runs the item; with a fleet in the controller."""


def pytest_bench_run_finished(item: pytest.Item, result: RunResult) -> None:
    """A run has ended and is judged next. Called in the same process as `pytest_bench_run_started`."""


def pytest_bench_session_summary(
    config: pytest.Config, session: Session, runs: Sequence[RunRecord]
) -> str | list[str] | None:
    """The invocation has ended. Return lines for the end of its summary, or None.

    Called once in the controller, with the last run of each entry and Python benchmark of this invocation. Runs that
    --bench-resume skipped are not included. An exception is shown as a warning.
    """
