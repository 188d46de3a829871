"""What all tests share: the pytest processes they start come up quickly, and keep nothing in the tester's home."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import warm
from hypothesis import settings
from plugins_of_others import WITHOUT_OTHERS

# How long an example takes depends on what else the machine does.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

ADDOPTS = ("PYTEST_ADDOPTS", " ".join(WITHOUT_OTHERS))
SLOW_FIXTURES = frozenset({"cluster", "local", "mlflow_server", "nodes", "own_server", "standing"})
"""Fixtures that start Ray clusters, or servers that tests do not share."""

LONGEST_FIRST = (
    "hunting/test_bisect_packages.py",
    "end_to_end/test_fleet_nodes.py",
    "sharing/test_ci_gates.py",
    "report/test_dashboard.py",
    "docs/test_examples.py",
    "hunting/",
    "report/test_serve.py",
    "end_to_end/",
    "execution/",
    "benchmarks/",
    "proof/test_turns",
    "proof/test_r",
)
"""Modules whose slow tests take a minute and more, then the folders of such of half a minute: what begins last should
be short, or three workers wait for the fourth."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests with these fixtures: `make test` may give those of a module to several workers, a cluster each."""
    for item in items:
        if not SLOW_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    return next((turn for turn, place in enumerate(LONGEST_FIRST) if f"/{place}" in item.nodeid), len(LONGEST_FIRST))


@pytest.fixture(scope="session", autouse=True)
def environment_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(*ADDOPTS)
        patch.setenv("CURATOR_BENCH_DISTURBED", "count")  # or what runs beside a test would decide its outcome
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))  # comparisons of one wait for each other
        yield


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Its processes come from the warm server; and pytest's own takes PYTEST_ADDOPTS away."""
    monkeypatch.setenv(*ADDOPTS)

    def runpytest_subprocess(*arguments: str | Path, timeout: float | None = None) -> pytest.RunResult:
        started = time.monotonic()
        where = {"HOME": str(pytester.path), "PYTHONPATH": str(pytester.path)}
        done = warm.run(
            "pytest",
            f"--basetemp={pytester.path / 'runpytest-0'}",
            *arguments,
            cwd=pytester.path,
            env={**os.environ, **where},
            within_s=timeout or 300,
        )
        return pytest.RunResult(
            done.returncode, done.stdout.splitlines(), done.stderr.splitlines(), time.monotonic() - started
        )

    monkeypatch.setattr(pytester, "runpytest_subprocess", runpytest_subprocess)
    return pytester
