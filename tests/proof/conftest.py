"""The long proofs: at a tenth of their size, or in full where CURATOR_BENCH_PROOF=full (`make proof`).

In full nothing may be skipped: a proof that could not be tried has failed, with the reason it was skipped for.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from proof.killing import Killing

if TYPE_CHECKING:
    from end_to_end.conftest import Project


@pytest.fixture(scope="session")
def full() -> bool:
    return _is_full()


def _is_full() -> bool:
    return os.environ.get("CURATOR_BENCH_PROOF") == "full"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_to_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_to_skip(report)
    return report


def _refuse_to_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and _is_full():
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        report.outcome = "failed"
        report.longrepr = f"Not proved ({reason}). In full (CURATOR_BENCH_PROOF=full) nothing may be skipped."


@pytest.fixture(scope="session")
def new_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Project]:
    """The projects of tests/end_to_end."""
    name = "projects_of_end_to_end"
    file = Path(__file__).parents[1] / "end_to_end" / "conftest.py"
    specification = importlib.util.spec_from_file_location(name, file)
    assert specification
    assert specification.loader
    module = sys.modules[name] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return lambda: module.Project(tmp_path_factory.mktemp("project"))


@pytest.fixture
def project(new_project: Callable[[], Project]) -> Project:
    return new_project()


@pytest.fixture
def killing(project: Project) -> Iterator[Killing]:
    killing = Killing(project)
    yield killing
    for path in Path("/dev/shm").glob(f"{project.mark.value}*"):
        path.unlink()
