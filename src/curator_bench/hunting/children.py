"""Programs that bisecting and A/B comparisons run: pytest, pip, the user's install command.

Each has a session of its own, so that Ctrl-C reaches it once, from us, and it can end its own children in order.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO

from curator_bench.cluster.environment import without_pytest
from curator_bench.cluster.temp_dirs import private_folder, remove_leftovers
from curator_bench.files.search_path import path_with
from curator_bench.hunting import child_program
from curator_bench.options.settings import HUNT_DATABASE_VARIABLE, HUNT_VARIABLE
from curator_bench.provenance.git import elsewhere
from curator_bench.values import Hunt

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE_S = 60.0
_TAIL = 15


class Stopped(BaseException):
    """Ctrl-C, SIGTERM or SIGHUP. A BaseException, so that no handler of failures swallows it."""

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number
        super().__init__(f"stopped by {signal.Signals(number).name}")


@contextmanager
def stoppable() -> Iterator[None]:
    """In the block, signals that ask us to stop raise `Stopped` once. Further ones are ignored during the clean-up."""
    before = {number: signal.signal(number, _stop) for number in _STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, _frame: FrameType | None) -> None:
    for each in _STOP_SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise Stopped(number)


def environment(changes: Mapping[str, str] | None = None, python: str = sys.executable) -> dict[str, str]:
    """Return our environment for a child.

    It lacks the variables of git hooks and of an outer pytest. Its PATH begins with the Python's folder, and ends with
    that of our Python, which has the programs of the packages that an environment on top of ours sees, such as py-spy.
    """
    base = without_pytest(elsewhere(os.environ))
    path = os.pathsep.join([str(Path(python).parent), base.get("PATH", os.defpath)])
    return {**base, "PATH": path_with(path, sys.executable), **(changes or {})}


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder for as long as the block lasts, and remove those that killed processes have left."""
    remove_leftovers()
    with private_folder(secrets.token_hex(8), Path(tempfile.gettempdir())) as folder:
        yield folder


def pytest_environment(
    hunt: Hunt, changes: Mapping[str, str] | None = None, python: str = sys.executable, database: str = ""
) -> dict[str, str]:
    """Return the environment of a pytest whose runs are recorded as those of this hunt, and in which database."""
    recorded_in = {HUNT_DATABASE_VARIABLE: database} if database else {}
    return {**environment(changes, python), HUNT_VARIABLE: hunt.value, **recorded_in}


def pytest_of(python: str) -> list[str]:
    """Command of a pytest that imports nothing from the working folder, like the command `pytest`."""
    return [python, "-P", "-m", "pytest"]


def run(
    words: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    output: IO[bytes] | None = None,
    has_own_errors: bool = False,
) -> int:
    """Run a program and return its exit code, or 128 + the number of a signal that ended it.

    Output goes to ours unless a file is given, and errors with it, unless the program has its own: they go to ours. The
    program ends with us even if we are killed; child_program.py does it.
    """
    ours_is_there, held = os.pipe()
    try:
        child = subprocess.Popen(
            [sys.executable, "-IS", child_program.__file__, str(ours_is_there), *words],
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output is not None and not has_own_errors else None,
            start_new_session=True,
            restore_signals=True,
            pass_fds=(ours_is_there,),
        )
        return _waited_for(child)
    finally:
        os.close(ours_is_there)
        os.close(held)


def _waited_for(child: subprocess.Popen[bytes]) -> int:
    try:
        code = child.wait()
    except BaseException:
        _end(child)
        raise
    return code if code >= 0 else 128 - code


def _end(child: subprocess.Popen[bytes]) -> None:
    """Interrupt the child, so that pytest records its runs as interrupted. Kill it if it takes too long."""
    for number, patience_s in ((signal.SIGINT, _GRACE_S), (signal.SIGKILL, None)):
        try:
            os.killpg(child.pid, number)
            child.wait(patience_s)
        except (subprocess.TimeoutExpired, ProcessLookupError):
            continue
        return


def tail_of(log: Path) -> str:
    """Return the last lines of a child's output."""
    lines = log.read_text("utf-8", errors="replace").rstrip().splitlines()
    return "\n".join(f"  {line}" for line in lines[-_TAIL:])
