"""The folders of a run: made, emptied of what an earlier run left, linked to where large things go."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from curator_bench import safe_files
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
    """The folders of one execution of a script. A script may replace any of them; paths are used with their `below`."""

    top: Path
    below: Path
    """The session's folder: from there on no link is followed."""
    large: Path
    """The folder of what is large: `top`, or its like in `artifacts_dir`, to which links of ours lead."""
    large_below: Path

    @property
    def log(self) -> Path:
        return self.large / "logs" / "stdouterr.log"

    @property
    def shown_log(self) -> Path:
        """The same, as people look for it."""
        return self.top / "logs" / "stdouterr.log"

    @property
    def ray_log(self) -> Path:
        return self.large / "logs" / "ray_startup.log"

    @property
    def scratch(self) -> Path:
        return self.large / "scratch"

    @property
    def ray_cluster(self) -> Path:
        return self.large / "ray_cluster"

    @property
    def results(self) -> Path:
        return self.top / "benchmark_results"

    def below_of(self, folder: Path) -> Path:
        """A script may be told to leave its results elsewhere; then that folder is taken as it is."""
        is_inside = folder.is_relative_to(self.below) and os.pardir not in folder.parts
        return self.below if is_inside else folder


def with_entry_dir(text: str, top: Path) -> str:
    """The placeholder that differs from repeat to repeat, filled in, by its new name and its old one."""
    return text.replace("{session_entry_dir}", str(top)).replace("{session}", str(top))


def attempt_top(plan: Plan) -> Path:
    """The folder of an attempt: the entry's own, and `attempt_2` and so on in it."""
    top = Path(plan.entry_dir)
    return top if plan.attempt == 1 else top / f"attempt_{plan.attempt}"


def directories_of(plan: Plan, top: Path) -> Directories:
    """The folders of an execution below `top`, whether or not they are there."""
    session_dir = Path(plan.session_dir)
    own = top.relative_to(plan.entry_dir)
    artifacts = Path(plan.artifacts_dir) if plan.artifacts_dir is not None else None
    if artifacts is None or os.path.realpath(artifacts) == os.path.realpath(plan.entry_dir):
        return Directories(top, session_dir, top, session_dir)
    parts = Path(plan.entry_dir).relative_to(session_dir).parts
    return Directories(top, session_dir, artifacts / own, artifacts.parents[len(parts) - 1])


def prepare(plan: Plan, top: Path) -> Directories:
    """Makes the folders of one execution below `top`, with nothing of an earlier run in them."""
    directories = directories_of(plan, top)
    below, large, large_below = directories.below, directories.large, directories.large_below
    for folder in {below, large_below}:
        folder.mkdir(parents=True, exist_ok=True)
    make_own_folder(top, below)
    for name in _FROM_EARLIER:
        safe_files.remove(top / name, below=below)
    if top == Path(plan.entry_dir):
        _remove_numbered(top, below)
        _remove_numbered(large, large_below)
    for name in LARGE:
        if large != top:
            safe_files.remove(large / name, below=large_below)
            _link(top / name, large / name, below)
        safe_files.make_folder(large / name, below=large_below)
    safe_files.make_folder(directories.results, below=below)
    return directories


def make_own_folder(folder: Path, below: Path) -> None:
    """A link in the place of a folder, or of one on the way to it, is replaced by a folder."""
    for name in [*reversed(folder.relative_to(below).parents), folder.relative_to(below)][1:]:
        if safe_files.kind_of(below / name, below=below) == "link":
            safe_files.remove(below / name, below=below)
    safe_files.make_folder(folder, below=below)


def _remove_numbered(folder: Path, below: Path) -> None:
    """A folder in `artifacts_dir` may be another thing by now; what is not removed here is when its turn comes."""
    with suppress(NotADirectoryError, safe_files.NotUsable):
        for name in safe_files.names_in(folder, below=below):
            if any(fnmatch(name, pattern) for pattern in _NUMBERED):
                safe_files.remove(folder / name, below=below)


def clear_results(folder: Path, below: Path) -> None:
    """Result files that are there before the script has started are another run's."""
    if folder == below:
        folder.mkdir(parents=True, exist_ok=True)
    safe_files.make_folder(folder, below=below)
    for name in _RESULT_FILES:
        safe_files.remove(folder / name, below=below)


def remove_scratch(directories: Directories) -> None:
    """What a script put in its place is only unlinked where it is a link. What cannot be removed is left."""
    with suppress(OSError):
        safe_files.remove(directories.scratch, below=directories.large_below)
    if directories.large != directories.top:
        with suppress(OSError):
            safe_files.remove(directories.top / "scratch", below=directories.below)


def _link(path: Path, target: Path, below: Path) -> None:
    with safe_files.open_folder(path.parent, below=below) as folder:
        os.symlink(target, path.name, target_is_directory=True, dir_fd=folder)
