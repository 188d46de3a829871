"""Runs `pytest` and `curator-bench` in processes of their own that do not have to import anything first.

A server of this test process has imported what they import, and forks for each run. What it forks is as good as a new
process for whoever reads its output and its files: session, environment, working directory and signals are its own.
What is looked up from outside, by its command or its environment, is the server: start a real process for that.
"""

from __future__ import annotations

import atexit
import os
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO

from hung_processes import outputs_of
from warm_client import ask

from curator_bench.measure.processes import busyness

_HERE = Path(__file__).parent
_STARTED_WITH = dict(os.environ)


def run(
    program: str,
    *arguments: str | Path,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    within_s: float = 300,
    stderr_apart: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run `pytest` or `curator-bench` to its end, as `subprocess.run` does.

    What takes longer than so many seconds of a quiet machine is killed; TimeoutError then says what its processes and
    their threads were doing.
    """
    words = [program, *map(str, arguments)]
    environment = dict(os.environ if env is None else env)
    if _is_read_at_the_start(environment):
        return _run_cold(words, cwd, environment, within_s, stderr_apart)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, Path(os.devnull).open() as nothing:
        fds = [nothing.fileno(), out.fileno(), (err if stderr_apart else out).fileno()]
        try:
            code = ask(_server(), words, str(cwd), environment, fds, within_s * busyness())
        except TimeoutError as hung:
            raise TimeoutError(
                f"{shlex.join(words)} took longer than {within_s} s:\n{hung}\n{_text(out)}{_text(err)}"
            ) from None
        return subprocess.CompletedProcess(words, code, _text(out), _text(err))


def _is_read_at_the_start(env: Mapping[str, str]) -> bool:
    """True where the dynamic linker is told something that a forked process would not hear of."""
    return any(name.startswith("LD_") and _STARTED_WITH.get(name) != value for name, value in env.items())


def _run_cold(
    words: list[str], cwd: Path, env: Mapping[str, str], within_s: float, stderr_apart: bool
) -> subprocess.CompletedProcess[str]:
    with subprocess.Popen(
        [str(Path(sys.executable).parent / words[0]), *words[1:]],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if stderr_apart else subprocess.STDOUT,
        text=True,
    ) as process:
        out, err = outputs_of(process, within_s)
        return subprocess.CompletedProcess(words, process.returncode, out, err)


@cache
def programs() -> Path:
    """A folder for a shell's PATH, with `pytest`, `curator-bench`, and a `python` whose `-m pytest` is that of here."""
    folder = Path(_server()).parent
    client = shlex.join([sys.executable, "-ISE", str(_HERE / "warm_client.py"), _server()])
    python = f'if [ "$1 $2" = "-m pytest" ]; then\n    shift 2\n    exec {client} pytest "$@"\nfi\n'
    texts = {name: f'exec {client} {name} "$@"\n' for name in ("pytest", "curator-bench")}
    for name, text in {**texts, "python": f'{python}exec {shlex.quote(sys.executable)} "$@"\n'}.items():
        file = folder / name
        file.write_text(f"#!/bin/sh\n{text}")
        file.chmod(0o755)
    return folder


@cache
def _server() -> str:
    """The address of a server that ends with this process, however that ends, and takes its folder along."""
    folder = tempfile.mkdtemp(prefix="warm-")
    address = os.path.join(folder, "socket")
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(_HERE), os.environ.get("PYTHONPATH", "")]),
        "PYTHONUTF8": "1",
    }
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        command = [sys.executable, str(_HERE / "warm_server.py"), str(listener.fileno()), folder]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, env=env, pass_fds=[listener.fileno()])
    atexit.register(server.communicate)
    return address


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
