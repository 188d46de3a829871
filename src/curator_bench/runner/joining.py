"""Chooses the session an invocation joins, and notes the invocation in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from curator_bench.collection.benchmarks import BENCHMARKS, Benchmarks, has_matrix
from curator_bench.options import settings
from curator_bench.options.rootdir import name_in_project
from curator_bench.runner.controller import warn
from curator_bench.runner.session_file import (
    FILE_NAME,
    claim_name,
    newest_session,
    note_invocation,
    remove_empty,
)


def note_session(session: pytest.Session) -> None:
    """Write session.json in the controller, before anything runs."""
    benchmarks, config = session.config.stash[BENCHMARKS], session.config
    will_run = not config.option.collectonly and (session.testscollected or config.getoption("tx", None))
    if has_matrix(config) and will_run and not hasattr(config, "workerinput"):
        matrices = _matrix_names(benchmarks, config)
        try:
            note_invocation(benchmarks.session_dir, benchmarks.settings.invocation, matrices)
        except OSError as error:  # each entry reports what this means for it
            warn(config, f"{FILE_NAME} could not be written: {error}")


def join_session(config: pytest.Config) -> None:
    """Choose the session in the controller.

    It is the one the user named, or with --bench-resume the newest of these matrices. Otherwise it is a new one that
    nobody else has.
    """
    benchmarks = config.stash[BENCHMARKS]
    if benchmarks.settings.names_session or hasattr(config, "workerinput"):
        return
    name = _newest(config) if benchmarks.settings.resume is not None else None
    if name is None and not config.option.collectonly:
        name = _claimed(config)
    if name is not None:
        benchmarks.settings = benchmarks.settings.with_session(name)


def _newest(config: pytest.Config) -> str | None:
    benchmarks = config.stash[BENCHMARKS]
    entries = {entry.folder[0] for entry in benchmarks.matrix.entries}
    return newest_session(benchmarks.session_dir.parent, _matrix_names(benchmarks, config), entries)


def _claimed(config: pytest.Config) -> str | None:
    """Create the folder of a new session and return its name; None if that fails, which each entry will report."""
    benchmarks = config.stash[BENCHMARKS]
    results = benchmarks.session_dir.parent
    artifacts = [Path(file.artifacts_dir) for file in benchmarks.matrix.files if file.artifacts_dir]
    is_new = not results.exists()
    try:
        name = claim_name(settings.session_name_now(), results, artifacts)
    except OSError:
        return None
    unused = [*(folder / name for folder in (results, *artifacts)), *([results] if is_new else [])]
    config.add_cleanup(lambda: remove_empty(unused))
    return name


def _matrix_names(benchmarks: Benchmarks, config: pytest.Config) -> list[str]:
    return [name_in_project(file.file, config) for file in benchmarks.matrix.files]
