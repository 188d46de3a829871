"""On real pipelines of Ray, `curator-bench why` names the stage that became slower, and no other one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from end_to_end.conftest import Project

SCRIPT = Path(__file__).with_name("pipelines_on_ray.py")
CASES = {
    "waves": ("clean", "clean"),
    "chains": ("tokenize", "tokenize"),
    "actors": ("embed", "Worker.embed"),
    "operators": ("normalize", "normalize"),
    "actor_pool": ("Scorer", "Scorer"),
}
"""By pipeline: the function that becomes slower, and what the name of its stage contains."""


def why(project: Project, entry: str, before: str, after: str) -> dict[str, Any]:
    command = Path(sys.executable).with_name("curator-bench")
    done = subprocess.run(
        [command, "why", entry, before, after, "--json", "--db", "benchmark.db"],
        cwd=project.folder,
        env=project.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def measure(new_project: Callable[[], Project], full: bool) -> Callable[..., Project]:
    """Record runs before and after: a stage takes half as long again in full. In short it takes six times as long.

    So it is found also on a machine that does much else. In full a unit of work is some 20 ms: the stages take seconds,
    beside which starting a process of Ray is little.
    """
    runs, factor, unit = (8, 1.5, 400_000) if full else (5, 6.0, 100_000)
    sessions = ("before", "same", "after") if full else ("before", "after")

    def measured(names: list[str]) -> Project:
        project = new_project()
        shutil.copy(SCRIPT, project.folder)
        entries = [
            {"name": name, "script": SCRIPT.name, "args": name, "ray": {"num_cpus": 2, "reuse": True}} for name in names
        ]
        project.matrix(*entries, default_timeout_s=300)
        work = project.folder / "work"
        for session in sessions:
            for name in names:
                work.write_text(f"{unit} {CASES[name][0]} {factor if session == 'after' else 1.0}")
                options = ("--bench-session", session, "-k", name, "--bench-runs", str(runs))
                outcome = project.outcome(
                    project.start("--benchmark", "--bench-disturbed", "count", *options), within_s=900
                )
                assert outcome.code == 0, outcome.output
        return project

    return measured


def test_the_slower_stage_of_real_pipelines_is_named(measure: Callable[..., Project], full: bool) -> None:
    names = list(CASES) if full else ["waves"]
    project = measure(names)
    for name in names:
        found = why(project, name, "before", "after")
        print(json.dumps({name: found["named"]}), flush=True)
        assert found["named"], found
        assert CASES[name][1] in found["named"][0]
        if full:
            assert len(found["named"]) == 1
            assert why(project, name, "before", "same")["named"] == []
