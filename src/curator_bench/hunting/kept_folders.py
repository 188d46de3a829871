"""Folders that are kept for the next time in the user's cache, such as environments, and the turn to measure."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from curator_bench.errors import BenchError
from curator_bench.files import safe_files
from curator_bench.files.locking import lock
from curator_bench.files.planted import refuse_planted_on_the_way

KEPT_DAYS = 14
_USED = "used"


def kept_root(kind: str) -> Path:
    """Return the folder of a kind of folders. Another user must not be able to put something into its place."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    root = (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "curator-bench" / kind
    try:
        refuse_planted_on_the_way(root)
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BenchError(f"{root} cannot be used: {error}; name another folder with XDG_CACHE_HOME") from error
    return root


def note_use(folder: Path) -> None:
    """Note that a folder is used now."""
    (folder / _USED).touch()


def remove_unused(root: Path, most: int) -> None:
    """Remove folders below `root` that were not used for some days, and the oldest of more than `most`."""
    oldest = time.time() - KEPT_DAYS * 24 * 3600
    used = (*root.glob(f"*/{_USED}"), *root.glob(f"*/*/{_USED}"))
    by_age = sorted(((_time_of(one), one) for one in used), reverse=True)
    for number, (last_use, one) in enumerate(by_age, 1):
        if last_use < oldest or number > most:
            shutil.rmtree(one.parent, ignore_errors=True)


def _time_of(file: Path) -> float:
    with suppress(OSError):
        return file.stat().st_mtime
    return 0.0


@contextmanager
def alone_on_this_machine(tell: Callable[[str], None]) -> Iterator[None]:
    """Wait for other comparisons of this user: two at once would measure each other, and share folders."""
    with safe_files.open_lock(kept_root("commits") / "lock") as file:
        try:
            lock(file, wait=False)
        except BlockingIOError:
            tell("another comparison measures on this machine: waiting for its end")
            lock(file)
        yield
