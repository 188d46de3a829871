"""What all tests share: the pytest processes they start come up quickly."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import warm
from plugins_of_others import WITHOUT_OTHERS

ADDOPTS = ("PYTEST_ADDOPTS", " ".join(WITHOUT_OTHERS))


SHARED = frozenset({"browser", "cluster", "clusters", "head", "mlflow_server", "outcome", "ran", "standing"})
"""Fixtures that take seconds to make: those of a module that use one are run by one worker, with `--dist loadgroup`."""
SLOW = ("end_to_end", "docs", "hunting", "sinks", "fixtures")
"""Folders whose tests begin first, so that no worker is left with a long one at the end."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("dist", "no") != "loadgroup":
        return
    for item in items:
        if shared := sorted(SHARED.intersection(getattr(item, "fixturenames", ()))):
            item.add_marker(pytest.mark.xdist_group(f"{item.path.stem}-{shared[0]}"))
    items.sort(key=lambda item: not any(part in SLOW for part in item.path.parts))


@pytest.fixture(scope="session", autouse=True)
def without_plugins_of_others() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(*ADDOPTS)
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
