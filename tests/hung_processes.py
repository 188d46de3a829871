"""What a pytest in a child process was doing when it took too long: its processes, and the stacks of their threads.

pytest turns on `faulthandler`, in the workers of pytest-xdist too. So SIGABRT makes each print the stack of every
thread, to the standard error it was started with.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil

from curator_bench.measure.processes import busyness

PRINTS_WITHIN_S = 5.0


def outputs_of(process: subprocess.Popen[str], within_s: float) -> tuple[str, str]:
    """Wait for the end of a process; return what it printed, as `communicate` does.

    If it takes longer than so many seconds of a quiet machine, end it and its descendants, and raise TimeoutError with
    what each of them was doing.
    """
    within_s *= busyness()
    try:
        out, err = process.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        processes = abort(process.pid)
        out, err = _rest_of(process)
        raise TimeoutError(f"it took longer than {within_s:.2f} s:\n{processes}\n{out or ''}{err or ''}") from None
    return out or "", err or ""


def abort(pid: int) -> str:
    """Make a process and its descendants print their stacks, then kill them. Returns a line for each."""
    tree = _tree(pid)
    lines = [_described(process) for process in tree]
    for number, grace_s in ((signal.SIGABRT, PRINTS_WITHIN_S), (signal.SIGKILL, 0.0)):
        for process in tree:
            with suppress(psutil.Error):
                process.send_signal(number)
        _, tree = psutil.wait_procs(tree, timeout=grace_s)
    return "\n".join(lines)


def _tree(pid: int) -> list[psutil.Process]:
    """The process and its descendants, parents first."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def _described(process: psutil.Process) -> str:
    try:
        waits_in = _content(f"/proc/{process.pid}/wchan")
        words = shlex.join(process.cmdline())[:200]
        return f"{process.pid} (child of {process.ppid()}) {process.status()} {waits_in}: {words}"
    except psutil.Error:
        return f"{process.pid} has ended"


def _content(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:  # macOS, or it has ended
        return ""


def _rest_of(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Read what is left in its pipes. A process that left the tree may hold them open."""
    deadline = time.monotonic() + PRINTS_WITHIN_S
    try:
        return process.communicate(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired as expired:
        held = " (another process holds its output open)\n"
        return _text(expired.stdout) + held, _text(expired.stderr)


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""
