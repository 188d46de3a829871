"""Databases that jobs add to a record, and what a record holds."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import warm


def command(*words: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `curator-bench` as a job of a CI system that has set nothing else."""
    ours = ("PYTEST_", "GITHUB_", "GITLAB_", "CI_", "CURATOR_BENCH_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    env = {**kept, "CURATOR_BENCH_DISTURBED": "count", **variables}
    return warm.run("curator-bench", *words, cwd=cwd, env=env)


def database(folder: Path, name: str) -> Path:
    """With a run of a benchmark of this name."""
    line = {"name": name, "path": "m.yaml", "metric": "time_s", "value": 1.0, "time": "2026-01-01"}
    folder.joinpath(f"{name}.jsonl").write_text(json.dumps(line))
    made = folder / f"{name}.db"
    done = command("import", f"{name}.jsonl", "--db", made, cwd=folder)
    assert done.returncode == 0, done.stderr
    return made


def recorded(file: Path) -> set[str]:
    done = command("history", "--json", "--db", file, cwd=file.parent)
    assert done.returncode == 0, done.stderr
    return {entry["name"] for entry in json.loads(done.stdout)["entries"]}


def files_of(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
