"""Which session an invocation joins, and that it has."""

from __future__ import annotations

import pytest

from curator_bench.collection import BENCHMARKS, Benchmarks
from curator_bench.execution.session_file import FILE_NAME, newest_session, note_invocation
from curator_bench.rootdir import name_in_project
from curator_bench.runner.announcing import warn


def note_session(session: pytest.Session) -> None:
    """session.json, in the controller, before anything runs."""
    benchmarks, config = session.config.stash[BENCHMARKS], session.config
    will_run = not config.option.collectonly and (session.testscollected or config.getoption("tx", None))
    if benchmarks.loaded and will_run and not hasattr(config, "workerinput"):
        matrices = _matrix_names(benchmarks, config)
        try:
            note_invocation(benchmarks.session_dir, benchmarks.settings.invocation, matrices)
        except OSError as error:  # whatever it means for the entries, each of them will say
            warn(config, f"{FILE_NAME} could not be written: {error}")


def go_on(config: pytest.Config) -> None:
    """With --bench-resume and no name: the newest session of these matrices, where there is one."""
    benchmarks = config.stash[BENCHMARKS]
    if benchmarks.settings.names_session or hasattr(config, "workerinput"):
        return
    entries = {entry.folder[0] for entry in benchmarks.matrix.entries}
    name = newest_session(benchmarks.session_dir.parent, _matrix_names(benchmarks, config), entries)
    if name is not None:
        config.stash[BENCHMARKS] = Benchmarks(benchmarks.settings.with_session(name), benchmarks.loaded)


def _matrix_names(benchmarks: Benchmarks, config: pytest.Config) -> list[str]:
    return [name_in_project(file.file, config) for file in benchmarks.matrix.files]
