"""The server of warm.py: imports what pytest and curator-bench import, as pytest does, and forks for each request.

Its arguments are the descriptor of the socket it listens on, and a folder that goes when it goes: when its standard
input ends.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import pytest
from hung_processes import abort
from plugins_of_others import WITHOUT_OTHERS
from warm_client import GIVEN_UP

ROOMS = ("cli", "collection", "execution", "fixtures", "matrix", "report", "runner", "sinks", "store", "verdict")
LIBRARIES = ("alembic.command", "alembic.config", "alembic.runtime.migration", "sqlalchemy.dialects.sqlite")


class Imports:
    """Made within a session of pytest, so that its assertion rewriting has had its hand in them as in any other."""

    def pytest_sessionstart(self) -> None:
        for name in LIBRARIES:
            importlib.import_module(name)
        for room in ROOMS:
            self.import_all(f"curator_bench.{room}")

    def import_all(self, name: str) -> None:
        with suppress(ImportError):  # an extra that is not installed
            module = importlib.import_module(name)
            for found in pkgutil.iter_modules(getattr(module, "__path__", ())):
                if not found.name.endswith("_program"):
                    self.import_all(f"{name}.{found.name}")


def import_all() -> None:
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as nothing:
        Path(folder, "pytest.ini").write_text("[pytest]\n")
        with redirect_stdout(nothing), redirect_stderr(nothing):
            pytest.main([folder, "-pno:cacheprovider", *WITHOUT_OTHERS], plugins=[Imports()])
    gc.freeze()


def serve(listener: socket.socket, folder: str) -> socket.socket:
    """Returns a connection in a process forked for it; the server itself ends here."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        readable, _, _ = select.select([listener.fileno(), 0], [], [])
        if 0 in readable:
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return connection
        connection.close()


def watch(connection: socket.socket, child: int) -> None:
    """Tell the client how the child ended. End the child when the client is gone, or does not wait any longer."""
    ended = os.pidfd_open(child)
    readable, _, _ = select.select([connection.fileno(), ended], [], [])
    answer = "" if ended in readable else _end(child, _received(connection))
    with suppress(OSError):
        connection.sendall((answer or _exit_code(child)).encode())
    os._exit(0)


def _exit_code(child: int) -> str:
    _, status = os.waitpid(child, 0)
    return str(os.waitstatus_to_exitcode(status))


def _received(connection: socket.socket) -> bytes:
    with suppress(OSError):
        return connection.recv(1)
    return b""


def _end(child: int, received: bytes) -> str:
    """End the child's group, after a look at its processes if the client has given up waiting for it."""
    answer = abort(child) if received == GIVEN_UP else ""
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return answer


def receive(connection: socket.socket) -> tuple[list[str], str, dict[str, str], list[int]]:
    length, fds, _, _ = socket.recv_fds(connection, 8, 3)
    request = connection.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)  # not more: GIVEN_UP may follow
    words, cwd, env = json.loads(request)
    return words, cwd, env, list(fds)


def become(words: list[str], cwd: str, env: dict[str, str], fds: list[int]) -> None:
    os.setsid()
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(env)
    tempfile.tempdir = None  # as TMPDIR says now
    os.chdir(cwd)
    for standard, fd in enumerate(fds):
        os.dup2(fd, standard)
        os.close(fd)
    faulthandler.enable(os.dup(2))  # pytest captures what it itself prints
    sys.argv = words
    sys.path[0] = cwd if words[0] == "pytest" else str(Path(sys.executable).parent)
    sys.path[1:1] = [place for place in env.get("PYTHONPATH", "").split(os.pathsep) if place and place not in sys.path]


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # who ends a whole group leaves the folder to us
        signal.signal(number, signal.SIG_IGN)
    listener = socket.socket(fileno=int(sys.argv[1]))
    import_all()
    connection = serve(listener, sys.argv[2])
    request = receive(connection)
    child = os.fork()
    if child:
        watch(connection, child)
    connection.close()
    become(*request)
    if sys.argv[0] == "pytest":
        runpy.run_module("pytest", run_name="__main__", alter_sys=True)
    else:
        importlib.import_module("curator_bench.cli").main()


if __name__ == "__main__":
    main()
