"""Copies the folders of finished runs, and the session's own files. Runs in the child process of the copy sink."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from curator_bench.files.planted import make_own_folder_first, refuse_planted_on_the_way
from curator_bench.sinks.copying import CopyConfig
from curator_bench.sinks.file_systems import local_folder, opened
from curator_bench.sinks.sink import Refused, Sink
from curator_bench.values import RunRecord, Session, Summary

_RESULTS = "results.json"
_OF_THE_MOMENT = "claim.json"
_LEFT_OUT = "scratch"
_LINKED = ("logs", "ray_cluster", "artifacts")
"""Folders that `artifacts_dir` keeps elsewhere, with a link in the session."""
_OF_THE_SESSION = ("env", "data_setup")
_KNOWN_BY = ".session-uid"
_AT_ONCE = 8
_SIGN_OF_LIFE_S = 1.0
_MOST_NAMED = 3


class FileCopies(Sink[CopyConfig]):
    config_model = CopyConfig

    def start_session(self, session: Session) -> None:
        if self.config.is_within(self.context.session_dir, self.context.matrix_dir):
            raise Refused(f"{self.config.to} is where the session stands")
        folder = local_folder(self.config.to, self.context.matrix_dir)
        if folder is not None:
            _take(folder / session.name)
        to = f"{str(folder) if folder else self.config.to.rstrip('/')}/{session.name}"
        self._copied: dict[Path, tuple[int, int]] = {}
        self._files, self._top = opened(to, self.config.options)
        self._seen = time.monotonic()
        self.context.link("", to)

    def run_finished(self, result: RunRecord) -> None:
        folder = Path(result.directory)
        if result.directory and folder.is_relative_to(self.context.session_dir):
            self._copy(files_of_run(folder, self.context.session_dir))

    def end_session(self, summary: Summary) -> None:
        self._copy(files_of_session(self.context.session_dir))

    def _copy(self, files: Iterable[Path]) -> None:
        """Copy the files that have changed. results.json comes last: where it is, the rest of the run is complete."""
        found = list(files)
        unreadable = self._copy_all([file for file in found if file.name != _RESULTS])
        unreadable += self._copy_all([file for file in found if file.name == _RESULTS])
        if unreadable:
            more = f" and {len(unreadable) - _MOST_NAMED} more" if len(unreadable) > _MOST_NAMED else ""
            raise Refused(f"cannot be read: {', '.join(unreadable[:_MOST_NAMED])}{more}")

    def _copy_all(self, files: list[Path]) -> list[str]:
        """Copy files in parallel. Returns a message for each file that cannot be read."""
        pool = ThreadPoolExecutor(_AT_ONCE if getattr(self._files, "async_impl", False) else 1)
        try:
            return [problem for problem in pool.map(self._copy_one, files) if problem]
        finally:
            pool.shutdown(cancel_futures=True)

    def _copy_one(self, file: Path) -> str:
        try:
            state = file.stat()
            file.open("rb").close()
        except FileNotFoundError:  # removed meanwhile
            return ""
        except OSError as error:
            return f"{file}: {error.strerror}"
        seen = (state.st_size, state.st_mtime_ns)
        if self._copied.get(file) != seen:
            below = file.relative_to(self.context.session_dir).as_posix()
            _put(self._files, str(file), f"{self._top.rstrip('/')}/{below}", self._get_on)
            self._copied[file] = seen
        self._get_on()
        return ""

    def _get_on(self, *_: Any) -> None:
        now = time.monotonic()
        if now - self._seen > _SIGN_OF_LIFE_S:
            self._seen = now
            self.context.alive()


def _take(folder: Path) -> None:
    """Make a local folder for copies, unless another user made it, or has put a link in its place."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    make_own_folder_first(folder)
    refuse_planted_on_the_way(folder)


def _put(file_system: Any, source: str, target: str, get_on: Any) -> None:
    from fsspec import AbstractFileSystem
    from fsspec.callbacks import Callback
    from fsspec.implementations.local import LocalFileSystem

    callback = Callback(hooks={"alive": get_on})
    if isinstance(file_system, LocalFileSystem):  # its own method copies in one go and reports no progress
        AbstractFileSystem.put_file(file_system, source, target, callback=callback)
    else:
        file_system.put_file(source, target, callback=callback)


def files_of_run(folder: Path, session_dir: Path) -> Iterator[Path]:
    for path in files_below(folder, session_dir):
        is_of_the_moment = path.parent == folder and (path.name == _OF_THE_MOMENT or path.name.startswith("."))
        if not is_of_the_moment:
            yield path


def files_below(folder: Path, session_dir: Path, left_out: Collection[str] = (_LEFT_OUT,)) -> Iterator[Path]:
    """List the files below a folder. Links that a script made are not followed, those of `artifacts_dir` are."""
    inside = [os.path.realpath(folder)]
    for top, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(
            name for name in folders if name not in left_out and _is_entered(Path(top, name), session_dir)
        )
        inside += [os.path.realpath(os.path.join(top, name)) for name in folders if os.path.islink(f"{top}/{name}")]
        yield from (path for path in sorted(Path(top, name) for name in names) if _is_file_of(path, inside))


def _is_entered(folder: Path, session_dir: Path) -> bool:
    if not folder.is_symlink():
        return True
    below = (session_dir.name, *folder.relative_to(session_dir).parts)
    return folder.name in _LINKED and folder.resolve().parts[-len(below) :] == below


def _is_file_of(path: Path, inside: Iterable[str]) -> bool:
    if not path.is_file():
        return False
    return not path.is_symlink() or any(path.resolve().is_relative_to(top) for top in inside)


def files_of_session(session_dir: Path) -> Iterator[Path]:
    """List the files that belong to no run: those at the top of the session, its env and its data_setup folders."""
    found = [*session_dir.iterdir(), *(path for name in _OF_THE_SESSION for path in (session_dir / name).rglob("*"))]
    for path in sorted(found):
        is_shown = not path.name.startswith(".") or path.name == _KNOWN_BY
        if is_shown and path.is_file() and not path.is_symlink():
            yield path
