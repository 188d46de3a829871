"""The short temporary directories of clusters, each with a note of whose it is, so that none outlives its owner."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from curator_bench.cluster.environment import CLUSTER_VARIABLE
from curator_bench.measure.processes import Mark, ProcessId, end_processes, identify, is_running

_PREFIX = "cb-"
_OWNER_FILE = "owner.json"
_REMOVAL_PATIENCE_S = 2.0
_NOTED_WITHIN_S = 60.0


def make_temp_dir(marker: str, mark: Mark) -> Path:
    """Short, since the path of a socket may have 107 letters only and Ray adds 70 to what we give it."""
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_root()))
    owner = identify(os.getpid())
    note = {
        "marker": marker,
        "cluster": mark.value,
        "pid": owner.pid if owner else 0,
        "started": owner.started if owner else 0,
        "where": _where(),
    }
    try:
        (directory / _OWNER_FILE).write_text(json.dumps(note))
    except OSError:
        remove_temp_dir(directory)
        raise
    return directory


def remove_temp_dir(directory: Path) -> None:
    """Retried for a moment: what was killed may still be on its way out of the kernel.

    The note goes last, so that whoever finds a removal that was cut short can finish it.
    """
    deadline = time.monotonic() + _REMOVAL_PATIENCE_S
    while True:
        for path in _all_but_the_note(directory):
            _remove(path)
        if not _all_but_the_note(directory):
            shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists() or time.monotonic() >= deadline:
            return
        time.sleep(0.02)


def _all_but_the_note(directory: Path) -> list[Path]:
    return [path for path in directory.glob("*") if path.name != _OWNER_FILE]


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def remove_leftovers(marker: str | None = None) -> None:
    """End the clusters of a run and remove what they left; without a marker, of all runs whose process is dead.

    For whoever cleans up after a process that was killed: a guard, or the next start of a cluster.
    """
    for directory, note in _noted():
        if note["marker"] == marker if marker is not None else _is_orphaned(note):
            end_processes(Mark(str(note["cluster"]), CLUSTER_VARIABLE), grace_s=0)
            remove_temp_dir(directory)
    _remove_empty()


def _remove_empty() -> None:
    """Whoever made them was killed before it could say whose they are."""
    for directory in Path(_root()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # not empty, gone, or another user's
            if time.time() - directory.stat().st_mtime > _NOTED_WITHIN_S:
                directory.rmdir()


def _noted() -> Iterator[tuple[Path, dict[str, object]]]:
    for file in Path(_root()).glob(f"{_PREFIX}*/{_OWNER_FILE}"):
        with suppress(OSError, ValueError, KeyError, TypeError):  # another user's, half written, or not ours at all
            note = json.loads(file.read_text())
            if note["marker"] and note["cluster"] and note["where"] == _where():
                yield file.parent, note


def _is_orphaned(note: dict[str, object]) -> bool:
    pid, started = note["pid"], note["started"]
    return isinstance(pid, int) and isinstance(started, int | float) and not is_running(ProcessId(pid, started))


def _where() -> str:
    """Process numbers mean something on one machine, in one container, until the next boot."""
    parts = [socket.gethostname()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        with suppress(OSError):
            parts.append(os.readlink(path) if os.path.islink(path) else Path(path).read_text().strip())
    return " ".join(parts)


def _root() -> str:
    """Not what TMPDIR says, which may be long."""
    return "/tmp" if os.access("/tmp", os.W_OK | os.X_OK) else tempfile.gettempdir()
