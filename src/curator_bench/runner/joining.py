"""Chooses the session an invocation joins, and notes the invocation in its session.json."""

from __future__ import annotations

import functools
import itertools
import os
import re
import socket
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from datetime import UTC, datetime
from difflib import get_close_matches
from errno import EACCES
from pathlib import Path
from typing import Any

import pytest

from curator_bench.collection.benchmarks import BENCHMARKS, Benchmarks, has_matrix
from curator_bench.errors import BenchError
from curator_bench.files.folder_handles import NotUsable
from curator_bench.files.json_files import read_object, write_json
from curator_bench.files.locking import locked
from curator_bench.files.planted import (
    TRUSTED_VARIABLE,
    belongs_to_another,
    make_own_folder_first,
    refuse_planted_on_the_way,
)
from curator_bench.options import settings
from curator_bench.options.rootdir import name_in_project
from curator_bench.runner.controller import warn
from curator_bench.runner.session import hunt_of

FILE_NAME = "session.json"
_NEAR = 0.75
_NEAR_SHOWN = 3


def note_session(session: pytest.Session) -> None:
    """Write session.json in the controller, before anything runs."""
    from curator_bench.runner.fitness import fitness_document

    benchmarks, config = session.config.stash[BENCHMARKS], session.config
    if has_matrix(config) and will_run(session):
        matrices = _matrix_names(benchmarks, config)
        try:
            invocation, machine = benchmarks.settings.invocation, fitness_document(config)
            note_invocation(benchmarks.session_dir, invocation, matrices, hunt_of(config), machine)
        except OSError as error:  # each entry reports what this means for it
            warn(config, f"{FILE_NAME} could not be written: {error}")


def will_run(session: pytest.Session) -> bool:
    """True in the controller if tests were collected that it, or its workers, will run."""
    config = session.config
    is_controller = not hasattr(config, "workerinput")
    return (
        is_controller and not config.option.collectonly and bool(session.testscollected or config.getoption("tx", None))
    )


def join_session(config: pytest.Config) -> None:
    """Choose the session in the controller.

    It is the one the user named, or with --bench-resume the newest of these matrices. Otherwise it is a new one that
    nobody else has. Raises BenchError if nothing can be written there, or if the session to resume does not exist and
    its name looks misspelt.
    """
    benchmarks = config.stash[BENCHMARKS]
    if hasattr(config, "workerinput"):
        return
    if has_matrix(config) and not config.option.collectonly:
        _check_results(config, benchmarks.session_dir)
    if benchmarks.settings.names_session:
        if benchmarks.settings.resume is not None and not benchmarks.session_dir.exists():
            _refuse_misspelt(benchmarks.session_dir)
        _make_first(config)
        _give_uid(benchmarks, config)
        return
    name = _newest(config) if benchmarks.settings.resume is not None else None
    if name is None and not config.option.collectonly:
        name = _claimed(config)
    if name is not None:
        benchmarks.join(name)
    _make_first(config)


def _give_uid(benchmarks: Benchmarks, config: pytest.Config) -> None:
    uid = benchmarks.settings.session_uid
    if uid is None or config.option.collectonly:
        return
    from curator_bench.store.session_uid import give_uid

    try:
        give_uid(benchmarks.session_dir, uid)
    except OSError as error:  # each entry reports what this means for it
        warn(config, f"{benchmarks.session_dir} has not got its uid: {error}")


def _check_results(config: pytest.Config, session_dir: Path) -> None:
    """Raise BenchError if the session's folder, or the folder of its results, cannot be written."""
    folder = session_dir if os.path.exists(session_dir) else session_dir.parent
    made = [one for one in (folder, *folder.parents) if not os.path.exists(one)]  # false for a name that is too long
    config.add_cleanup(lambda: remove_empty(made))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(EACCES, os.strerror(EACCES))
    except OSError as error:
        raise BenchError(
            f"results cannot be written to {folder}: {error.strerror}; name another folder with --bench-results"
        ) from None
    _refuse_planted(folder.parent if folder == session_dir else folder)


def _make_first(config: pytest.Config) -> None:
    """Make the session's folders where everybody could make them. Raises BenchError if another user was faster."""
    session_dir = config.stash[BENCHMARKS].session_dir
    for top in [] if config.option.collectonly else [session_dir.parent, *_artifacts(config)]:
        _refuse_planted(top)
        folder = top / session_dir.name
        try:
            if make_own_folder_first(folder):
                config.add_cleanup(functools.partial(remove_empty, [folder]))
        except NotUsable as error:
            raise BenchError(f"the session's folder {error.filename} {error.strerror}; name another session") from None
        except OSError:  # each entry reports what this means for it
            continue


def _refuse_planted(top: Path) -> None:
    try:
        refuse_planted_on_the_way(top)
    except NotUsable as error:
        raise BenchError(
            f"{error.filename} {error.strerror}, who could replace what is written to {top}; name another folder"
            f" (--bench-results, artifacts_dir), or trust this user: {TRUSTED_VARIABLE}"
        ) from None


def _artifacts(config: pytest.Config) -> list[Path]:
    return [Path(file.artifacts_dir) for file in config.stash[BENCHMARKS].matrix.files if file.artifacts_dir]


def _refuse_misspelt(session_dir: Path) -> None:
    """Raise BenchError if another session has nearly this name.

    Names that differ in digits alone belong to a series of sessions. A job that may be queued again resumes its session
    from the start, so any other new name begins a session.
    """
    results, name = session_dir.parent, session_dir.name
    others = {file.parent.name for file in results.glob(f"*/{FILE_NAME}")}
    misspelt = [other for other in others if _without_digits(other) != _without_digits(name)]
    if near := get_close_matches(name, misspelt, n=_NEAR_SHOWN, cutoff=_NEAR):
        which = " or ".join(map(repr, near))
        new = "leave out --bench-resume to begin a new session of this name"
        raise BenchError(f"--bench-resume: {results} has no session {name!r}; did you mean {which}? Or {new}")


def _without_digits(name: str) -> str:
    return re.sub(r"[0-9]+", "", name)


def _newest(config: pytest.Config) -> str | None:
    benchmarks = config.stash[BENCHMARKS]
    entries = {entry.folder[0] for entry in benchmarks.matrix.entries}
    return newest_session(benchmarks.session_dir.parent, _matrix_names(benchmarks, config), entries, hunt_of(config))


def _claimed(config: pytest.Config) -> str | None:
    """Create the folder of a new session and return its name; None if that fails, which each entry will report."""
    benchmarks = config.stash[BENCHMARKS]
    results, artifacts = benchmarks.session_dir.parent, _artifacts(config)
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


def note_invocation(
    directory: Path,
    invocation: str,
    matrices: Sequence[str],
    hunt: str = "",
    machine: Sequence[Mapping[str, str]] = (),
) -> None:
    """Add the invocation to session.json before its first entry runs. Others may do the same at that moment.

    `machine` is the short answer of the doctor.
    """
    directory.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    own = {
        "uid": invocation,
        "started_at": now,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "hunt": hunt,
        "machine": machine,
    }
    with locked(directory / f".{FILE_NAME}.lock"):
        known = read_object(directory / FILE_NAME)
        both = [*known.get("matrices", []), *matrices]
        document = {
            "session": directory.name,
            "started_at": known.get("started_at", now),
            "matrices": list(dict.fromkeys(both)),
            "invocations": [*known.get("invocations", []), own],
        }
        write_json(directory / FILE_NAME, document)


def claim_name(name: str, results: Path, others: Iterable[Path]) -> str:
    """Create the folder of a new session: NAME, or the first free one of NAME_2, NAME_3 and so on.

    Only one process can create a folder, also on a file system that hosts share. `others` are further places for a
    folder of the session, which no other session may have either.
    """
    tops = list(dict.fromkeys(map(os.path.realpath, (results, *others))))
    results.mkdir(parents=True, exist_ok=True)
    names = (f"{name}_{number}" if number > 1 else name for number in itertools.count(1))
    return next(name for name in names if _create([Path(top, name) for top in tops]))


def _create(folders: Sequence[Path]) -> bool:
    """Create all folders, or none if one exists. Other errors matter only for the first; the rest can be made later."""
    try:
        folders[0].mkdir()
    except FileExistsError:
        return False
    for number, folder in enumerate(folders[1:], start=1):
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            remove_empty(folders[:number])
            return False
        except OSError:
            continue
    return True


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove the folders that are empty."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def newest_session(results: Path, matrices: Sequence[str], entries: Set[str], hunt: str = "") -> str | None:
    """Return the name of the session of these matrices that began last, with an invocation for `hunt`.

    `entries` are the first folders of their entries. A session with none of them could not start, so it counts only if
    there is no other. Sessions that another user may have planted do not count.
    """
    files = [file for file in results.glob(f"*/{FILE_NAME}") if not belongs_to_another(file.parent)]
    found = [(document, file.parent.name) for file in files if (document := read_object(file))]
    of_these = [
        (any((results / name / entry).is_dir() for entry in entries), str(document.get("started_at", "")), name)
        for document, name in found
        if set(matrices) & set(map(str, document.get("matrices", [])))
        if has_runs_for(hunt, document)
    ]
    return max(of_these)[-1] if of_these else None


def has_runs_for(hunt: str, document: Mapping[str, Any]) -> bool:
    """True if an invocation of this session.json is for `hunt`; an empty or damaged file counts as history."""
    invocations = document.get("invocations")
    known = [one for one in invocations if isinstance(one, dict)] if isinstance(invocations, list) else []
    return hunt in ({one.get("hunt", "") for one in known} or {""})
