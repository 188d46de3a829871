"""Whoever starts pytest in a folder that others can write to runs no module that they have planted there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import warm
from other_user import needs_a_second_user, run, shared_folder

from curator_bench.cluster.interpreters import interpreter_with_ray

if TYPE_CHECKING:
    from end_to_end.conftest import Project

pytestmark = needs_a_second_user

PLANTS = """
names = "json importlib ray platform runpy curator_bench mlflow logging asyncio ssl grpc pytest pip"
for name in names.split():
    with open(f"{sys.argv[1]}/{name}.py", "w") as file:
        file.write("import os, sys\\n")
        file.write("os.open(os.path.dirname(__file__) + '/ran-' + __name__, os.O_CREAT | os.O_WRONLY)\\n")
        file.write("raise ImportError('planted')\\n")
"""
ANOTHER_PYTHON = f"{sys.base_prefix}/bin/python3"


@pytest.fixture
def planted() -> Iterator[Path]:
    with shared_folder() as folder:
        run(PLANTS, folder)
        assert (folder / "json.py").exists()
        yield folder


def ran(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob("ran-*"))


def pytest_in(folder: Path, project: Project, *options: str) -> None:
    matrix, results = project.folder / "matrix.yaml", project.folder / "results"
    own = ["--bench-results", str(results), "--bench-session", "s", "--benchmark", "-pno:cacheprovider"]
    done = warm.run("pytest", str(matrix), *own, *options, cwd=folder, env=project.environment(), stderr_apart=False)
    assert done.returncode == 0, done.stdout


def test_questions_to_another_python_import_nothing_from_the_working_folder(project: Project, planted: Path) -> None:
    project.matrix(project.entry("one", python=ANOTHER_PYTHON, requires=["json"]))
    pytest_in(planted, project)
    assert ran(planted) == []


def test_a_cluster_looks_for_ray_where_scripts_find_it(planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(planted)
    assert interpreter_with_ray(ANOTHER_PYTHON, {}) in (sys.executable, ANOTHER_PYTHON)
    assert ran(planted) == []


@pytest.mark.slow
def test_the_workers_of_a_fleet_and_the_children_of_sinks_import_nothing_from_there(
    project: Project, planted: Path
) -> None:
    """Ray itself adds the folder of a driver to the path of all workers."""
    sink = {"name": "mlflow", "tracking_uri": f"sqlite:///{project.folder}/mlflow.db", "experiment": "one"}
    project.matrix(project.entry("one"), sinks=[sink])
    pytest_in(planted, project, "--bench-fleet", "local", "--bench-fleet-cpus", "1")
    assert (project.folder / "mlflow.db").exists()
    assert ran(planted) == []
