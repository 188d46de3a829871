"""The folders of a run: made, emptied of what an earlier run left, linked to where large things go."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from curator_bench.execution.files import remove
from curator_bench.values import Plan

LARGE = ("logs", "scratch", "ray_cluster", "artifacts")
_RESULT_FILES = ("params.json", "metrics.json", "tasks.pkl")
_SAMPLES = ("gpustats.csv", "memory.csv")
PENDING = ".results.json.pending"
"""results.json, before it is put in its place."""
_FROM_EARLIER = ("benchmark_results", *LARGE, "command.txt", "results.json", PENDING, "status.json", *_SAMPLES)
_NUMBERED = ("repeat_*", "warmup_*", "attempt_*")


@dataclass(frozen=True, slots=True)
class Directories:
    """The folders of one execution of a script."""

    top: Path

    @property
    def log(self) -> Path:
        return self.top / "logs" / "stdouterr.log"

    @property
    def ray_log(self) -> Path:
        return self.top / "logs" / "ray_startup.log"

    @property
    def scratch(self) -> Path:
        return self.top / "scratch"

    @property
    def ray_cluster(self) -> Path:
        return self.top / "ray_cluster"

    @property
    def results(self) -> Path:
        return self.top / "benchmark_results"


def with_entry_dir(text: str, top: Path) -> str:
    """The placeholder that differs from repeat to repeat, filled in, by its new name and its old one."""
    return text.replace("{session_entry_dir}", str(top)).replace("{session}", str(top))


def attempt_top(plan: Plan) -> Path:
    """The folder of an attempt: the entry's own, and `attempt_2` and so on in it."""
    top = Path(plan.entry_dir)
    return top if plan.attempt == 1 else top / f"attempt_{plan.attempt}"


def prepare(plan: Plan, top: Path) -> Directories:
    """Makes the folders of one execution below `top`, with nothing of an earlier run in them."""
    top.mkdir(parents=True, exist_ok=True)
    for name in _FROM_EARLIER:
        remove(top / name)
    if top == Path(plan.entry_dir):
        _remove_numbered(top)
        if plan.artifacts_dir is not None:
            _remove_numbered(Path(plan.artifacts_dir))
    for name in LARGE:
        _make_large(plan, top, name)
    Directories(top).results.mkdir()
    return Directories(top)


def _remove_numbered(folder: Path) -> None:
    for pattern in _NUMBERED:
        for found in folder.glob(pattern):
            remove(found)


def clear_results(directory: Path) -> None:
    """Result files that are there before the script has started are another run's."""
    for name in _RESULT_FILES:
        remove(directory / name)
    directory.mkdir(parents=True, exist_ok=True)


def remove_scratch(directories: Directories) -> None:
    if directories.scratch.is_symlink():
        shutil.rmtree(directories.scratch.resolve(), ignore_errors=True)
        directories.scratch.unlink()
    else:
        shutil.rmtree(directories.scratch, ignore_errors=True)


def _make_large(plan: Plan, top: Path, name: str) -> None:
    """A folder of a large thing: in place, or in `artifacts_dir` with a link in place."""
    if plan.artifacts_dir is None:
        (top / name).mkdir()
        return
    target = Path(plan.artifacts_dir, *top.relative_to(plan.entry_dir).parts, name)
    if target != top / name:
        remove(target)
        (top / name).symlink_to(target, target_is_directory=True)
    target.mkdir(parents=True)
