"""A machine of a CI system with a project that is not ours, for the tests that run the jobs of its files."""

from __future__ import annotations

from pathlib import Path

import pytest
from sharing.jobs_of_ci import Machine, init, install_wheel, make_project


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def machine(tmp_path: Path, wheel: Path) -> Machine:
    """A machine with a checkout of a project whose repository has the files."""
    project = make_project(tmp_path / "project")
    for system in ("github", "gitlab"):
        assert init(project.folder, system).returncode == 0
    (tmp_path / "machine" / "nights").mkdir(parents=True)
    return Machine(wheel, tmp_path / "machine", project.folder)
