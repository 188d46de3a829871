"""The folders of a run: created, cleared of an earlier run's files, linked to the folder for large files."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from curator_bench.files import safe_files
from curator_bench.files.folder_handles import NotUsable, open_folder
from curator_bench.values import Plan

ARTIFACTS = "artifacts"
LARGE = ("logs", "scratch", "ray_cluster", ARTIFACTS)
_RESULT_FILES = ("params.json", "metrics.json", "samples.json", "tasks.pkl")
_SAMPLES = ("gpustats.csv", "memory.csv")
PENDING = ".results.json.pending"
"""results.json before it is renamed into place."""
BY_US_ALONE = ("results.json", PENDING, "results.jsonl", "claim.json", "status.json")
"""Files of a run's folder that only we write."""
_FROM_EARLIER = ("benchmark_results", *LARGE, "command.txt", "results.json", PENDING, "status.json", *_SAMPLES)
_NUMBERED = ("repeat_*", "warmup_*", "attempt_*", "profile_*")


@dataclass(frozen=True, slots=True)
class Directories:
    """The folders of one execution. A script may replace any of them, so each path is used with its `below`."""

    top: Path
    below: Path
    """The session's folder. No link is followed below it."""
    large: Path
    """Folder for large files: `top`, or its counterpart in `artifacts_dir`, to which we link."""
    large_below: Path

    @property
    def log(self) -> Path:
        return self.large / "logs" / "stdouterr.log"

    @property
    def shown_log(self) -> Path:
        """Path of the log to show to people."""
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
        """Trusted folder for a results folder: our own, or the folder itself if the script writes outside the
        session."""
        is_inside = folder.is_relative_to(self.below) and os.pardir not in folder.parts
        return self.below if is_inside else folder


def with_entry_dir(text: str, top: Path) -> str:
    """Fill in the entry's directory, under its current and its old placeholder. It differs from repeat to repeat."""
    return text.replace("{session_entry_dir}", str(top)).replace("{session}", str(top))


def attempt_top(plan: Plan) -> Path:
    """Folder of an attempt: the entry's own, or `attempt_2` and so on in it; of an extra run, `profile_1` in that."""
    top = Path(plan.entry_dir)
    if plan.attempt > 1:
        top /= f"attempt_{plan.attempt}"
    return top / f"profile_{plan.profiling.number}" if plan.profiling else top


def directories_of(plan: Plan, top: Path) -> Directories:
    """Folders of an execution below `top`, whether or not they exist."""
    session_dir = Path(plan.session_dir)
    own = top.relative_to(plan.entry_dir)
    artifacts = Path(plan.artifacts_dir) if plan.artifacts_dir is not None else None
    if artifacts is None or os.path.realpath(artifacts) == os.path.realpath(plan.entry_dir):
        return Directories(top, session_dir, top, session_dir)
    parts = Path(plan.entry_dir).relative_to(session_dir).parts
    return Directories(top, session_dir, artifacts / own, artifacts.parents[len(parts) - 1])


def prepare(plan: Plan, top: Path) -> Directories:
    """Create the folders of one execution below `top` and remove an earlier run's files."""
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
    """Make a folder and its parents below `below`. A link in place of one of them is replaced."""
    for name in [*reversed(folder.relative_to(below).parents), folder.relative_to(below)][1:]:
        if safe_files.kind_of(below / name, below=below) == "link":
            safe_files.remove(below / name, below=below)
    safe_files.make_folder(folder, below=below)


def _remove_numbered(folder: Path, below: Path) -> None:
    """Remove the numbered folders of an earlier run.

    The folder may no longer be one; its leftovers are then removed when it is prepared itself.
    """
    with suppress(NotADirectoryError, NotUsable):
        for name in safe_files.names_in(folder, below=below):
            if any(fnmatch(name, pattern) for pattern in _NUMBERED):
                safe_files.remove(folder / name, below=below)


def clear_results(folder: Path, below: Path) -> None:
    """Remove result files of another run before the script starts."""
    if folder == below:
        folder.mkdir(parents=True, exist_ok=True)
    safe_files.make_folder(folder, below=below)
    for name in _RESULT_FILES:
        safe_files.remove(folder / name, below=below)


def remove_scratch(directories: Directories) -> list[str]:
    """Remove the scratch folder; a link in its place is only unlinked. Return what could not be removed, and why."""
    places = {directories.scratch: directories.large_below, directories.top / "scratch": directories.below}
    problems = []
    for path, below in places.items():
        try:
            safe_files.remove(path, below=below)
        except FileNotFoundError:
            pass
        except OSError as error:
            problems.append(f"the scratch folder could not be removed: {error.strerror}: {path}")
    return problems


def _link(path: Path, target: Path, below: Path) -> None:
    with open_folder(path.parent, below=below) as folder:
        os.symlink(target, path.name, target_is_directory=True, dir_fd=folder)
