"""Runs pytest in a process of its own that does not have to import anything first.

A server of this test process has imported pytest and the plugin, and forks for each run. What it forks is as good as a
new process for whoever reads its output and its files: session, environment, working directory and signals are its own.
What is looked up from outside by its command or its environment is the server's: start pytest anew for that.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest


def run_pytest(
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    output: Path,
    within_s: float,
) -> int:
    """Run `python -m pytest ARGUMENTS`; its exit code, negative after a signal. It is killed when it takes too long."""
    details = (tuple(arguments), str(cwd), dict(env), str(output))
    process = _server().Process(target=_become_pytest, args=details)
    process.start()
    process.join(within_s)
    if process.exitcode is None:
        os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
        raise TimeoutError(f"pytest {' '.join(arguments)} took longer than {within_s} s:\n{output.read_text()}")
    return process.exitcode


@cache
def _server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["warm_pytest_preload"])
    with pytest.MonkeyPatch.context() as patch:  # the server does not learn of our sys.path
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        patch.setenv("PYTHONUTF8", "1")
        forkserver.ensure_running()
    return context


def _become_pytest(arguments: Sequence[str], cwd: str, env: Mapping[str, str], output: str) -> None:
    os.setsid()
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    with open(os.devnull) as nothing, open(output, "wb") as written:
        os.dup2(nothing.fileno(), 0)
        os.dup2(written.fileno(), 1)
        os.dup2(written.fileno(), 2)
    sys.path[0] = cwd
    sys.argv = [pytest.__file__.replace("__init__", "__main__"), *arguments]
    try:
        sys.exit(pytest.console_main())
    finally:
        atexit._run_exitfuncs()
