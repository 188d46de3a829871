"""`curator-bench init`: what it writes runs as it is, and nothing of the user's is written over."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import warm

FILES = {"matrix.yaml", "word_count.py", "conftest.py"}


def init(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run("curator-bench", "init", *arguments, cwd=folder)


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def test_what_it_writes_into_an_empty_folder_passes_without_ray(tmp_path: Path) -> None:
    assert init(tmp_path).returncode == 0
    assert names(tmp_path) == FILES
    passes(tmp_path, runs=2)
    assert not any(tmp_path.glob("results/first/**/ray_startup.log"))


@pytest.mark.slow
def test_its_entry_with_ray_passes_once_it_is_no_comment(tmp_path: Path) -> None:
    assert init(tmp_path).returncode == 0
    matrix = tmp_path / "matrix.yaml"
    before, ray, after = re.split(r"((?:^# {3}.*\n){5})", matrix.read_text(), maxsplit=1, flags=re.MULTILINE)
    matrix.write_text(before + re.sub(r"^# ", "", ray, flags=re.MULTILINE) + after)
    passes(tmp_path, runs=3)


def passes(folder: Path, runs: int) -> None:
    outcome = warm.run("pytest", "--strict-markers", "--bench-session", "first", cwd=folder, within_s=300)
    assert f"{runs} passed" in outcome.stdout, outcome.stdout + outcome.stderr
    assert "load:" in outcome.stdout  # its conftest was read
    summary = json.loads((folder / "results" / "first" / "summary.json").read_text())
    assert summary["counts"] == {"passed": runs}
    assert all(run["metrics"]["words"] == 400_000 for run in summary["runs"])


def test_everything_in_it_is_explained() -> None:
    matrix = Path(__file__).parents[2] / "src" / "curator_bench" / "cli" / "starter" / "matrix.yaml"
    assert sum("#" in line for line in matrix.read_text().splitlines()) >= 12


def test_it_makes_the_folder_and_says_how_to_go_on(tmp_path: Path) -> None:
    outcome = init(tmp_path, "new/benchmarks")
    assert names(tmp_path / "new" / "benchmarks") == FILES
    assert outcome.stdout.splitlines()[-1] == "Run it: cd new/benchmarks && pytest --benchmark"


@pytest.mark.parametrize("name", sorted(FILES))
def test_it_never_writes_over_what_is_there(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    outcome = init(tmp_path)
    assert outcome.returncode == 1
    assert name in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert names(tmp_path) == {name}
    assert (tmp_path / name).read_text() == "mine"
