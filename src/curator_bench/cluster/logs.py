"""Ray's own logs: their last lines for people, and a copy to keep."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

_TELLING = ("gcs_server.err", "raylet.err", "gcs_server.out", "raylet.out")
_FROM_THE_END = 16_384
_LINES_OF_EACH = 10
_STATISTICS = re.compile(r"^\s|\[state-dump\]|Event stats:|^(Execution|Queueing) time:|^Global stats:|^-{10,}$")
_NOT_KEPT = ("sockets", "runtime_resources", "ray_spilled_objects*", "tpu_logs", "*_port_*")


def last_lines(startup_log: Path | None, session_dir: Path | None) -> tuple[str, ...]:
    """The end of what `ray start` printed and of the logs of the cluster's two main processes."""
    return tuple(_each_tail(_existing(startup_log, session_dir)))


def keep_logs(session_dir: Path, target: Path) -> None:
    """Move what Ray wrote, without sockets, runtime environments and spilled objects; nothing may run there by now."""
    if not session_dir.is_dir():
        return
    target.mkdir(parents=True, exist_ok=True)
    for source in session_dir.iterdir():
        if not any(source.match(pattern) for pattern in _NOT_KEPT):
            _move(source, _free_name(target / source.name))


def newest_session(temp_dir: Path) -> Path | None:
    """Where a cluster that never said so put its logs."""
    return max(temp_dir.glob("session_2*"), default=None)


def _existing(startup_log: Path | None, session_dir: Path | None) -> Iterator[Path]:
    candidates = [startup_log] if startup_log else []
    if session_dir:
        candidates += [session_dir / "logs" / name for name in _TELLING]
    return (path for path in candidates if path.is_file() and path.stat().st_size)


def _each_tail(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        yield f"--- {path.name}"
        yield from _tail(path)


def _tail(path: Path) -> list[str]:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _FROM_THE_END))
        lines = file.read().decode(errors="replace").splitlines()
    return [line for line in lines if line and not _STATISTICS.search(line)][-_LINES_OF_EACH:]


def _move(source: Path, target: Path) -> None:
    """Across file systems what is neither file nor folder stays behind."""
    with contextlib.suppress(OSError):
        source.rename(target)
        return
    if source.is_dir() and not source.is_symlink():
        shutil.copytree(source, target, symlinks=True, ignore=_special_files)
    elif source.is_file():
        shutil.copy2(source, target)


def _special_files(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if not (Path(folder, name).is_file() or Path(folder, name).is_dir())}


def _free_name(path: Path) -> Path:
    """A run has the logs of every start, also of those that failed."""
    numbered = (path.with_name(f"{path.name}_{number}") for number in range(2, 1000))
    return path if not path.exists() else next(one for one in numbered if not one.exists())
