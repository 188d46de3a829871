"""Run one of our programs in a child process, with a cluster's interpreter. This process itself never talks to Ray."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from curator_bench.files import safe_files
from curator_bench.measure.limit_marks import brand
from curator_bench.measure.processes import RUN_VARIABLE, identify

_ENDS_WITHIN_S = 2.0
_AS_A_SCRIPT = "import sys; sys.path[:] = filter(None, sys.path)\n"
"""With `-c` the working folder comes before the standard library, and others may have planted modules there. Python has
an option against it (-P), but not before 3.11, and a user's Python may be older."""
_SHOWN_BYTES = 300


class ProgramFailed(Exception):
    """The program did not start, ended too early, did not answer in time, or reported a failure."""


@dataclass(frozen=True, slots=True)
class Command:
    """The program to run. It runs by its path, in an interpreter that may not have curator_bench."""

    python: str
    program: Path
    env: Mapping[str, str]
    arguments: tuple[str, ...] = ()
    log_path: Path | None = None
    """File its output is appended to. Without one, a failure shows the output's last line."""
    working_dir: str | None = None
    own_mark: str | None = None
    """Brand of the program and its descendants, together with the run's mark in `env`; None: not branded."""


def question(python: str, text: str, *arguments: str) -> list[str]:
    """Command line of a short program given as text. Like a script, it imports nothing from the working folder."""
    return [python, "-c", _AS_A_SCRIPT + text, *arguments]


class Program:
    """A running program.

    It answers in lines of JSON, on its own descriptor because Ray may print, and ends when its input is closed.
    """

    def __init__(self, command: Command) -> None:
        self._said: BinaryIO | None = None
        self._answers, answer_to = os.pipe()
        self._unread = b""
        try:
            self._process = self._start(command, answer_to)
        except OSError as error:
            os.close(self._answers)
            self._close_output()
            raise ProgramFailed(f"{command.python} did not start: {error}") from error
        finally:
            os.close(answer_to)
        if command.own_mark is not None:
            brand(self._process.pid, run=command.env.get(RUN_VARIABLE, ""), own=command.own_mark)
        self.roots = tuple(filter(None, [identify(self._process.pid)]))
        """The child's identity, unique even if its pid is reused."""

    def ask(self, question: Any) -> None:
        """Send a line of JSON."""
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ProgramFailed(self._how_it_ended()) from error

    def answer(self, within_s: float) -> dict[str, Any]:
        """Read the next answer. Raises ProgramFailed if it reports a failure or does not come in time."""
        deadline = time.monotonic() + within_s
        while b"\n" not in self._unread:
            if not _is_readable(self._answers, deadline):
                raise ProgramFailed(f"no answer within {within_s:g} s")
            piece = os.read(self._answers, 65536)
            if not piece:
                raise ProgramFailed(self._how_it_ended())
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise ProgramFailed(f"it answered with something else: {line[:_SHOWN_BYTES].decode('utf-8', 'replace')}")
        if "failed" in answer:
            raise ProgramFailed(str(answer["failed"]))
        return answer

    def end(self) -> None:
        """End the program if it still runs, and reap it."""
        assert self._process.stdin
        try:
            self._process.stdin.close()
        except OSError:  # it ended first
            self._process.kill()
        try:
            self._process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._answers)
        self._close_output()

    def kill(self) -> None:
        """End the program at once, whatever it does."""
        self._process.kill()
        self.end()

    def _start(self, command: Command, answer_to: int) -> subprocess.Popen[bytes]:
        output = self._output(command.log_path)
        try:
            return subprocess.Popen(
                [command.python, str(command.program), str(answer_to), *command.arguments],
                env=dict(command.env),
                cwd=command.working_dir,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=(answer_to,),
                start_new_session=True,
            )
        finally:
            if output is not self._said:
                output.close()

    def _output(self, log_path: Path | None) -> BinaryIO:
        if log_path is not None:
            log_path.parent.mkdir(parents=True, exist_ok=True)
            return safe_files.open_to_append(log_path)
        self._said = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115  closed by `end`
        return self._said

    def _close_output(self) -> None:
        if self._said is not None:
            self._said.close()

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            return "it stopped answering"
        return ": ".join([f"it ended with exit code {code}", *self._last_line()])

    def _last_line(self) -> list[str]:
        if self._said is None:
            return []
        size = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, size - _SHOWN_BYTES))
        return self._said.read().decode("utf-8", "replace").strip().splitlines()[-1:]


def _is_readable(descriptor: int, deadline: float) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(max(0.0, deadline - time.monotonic())))
