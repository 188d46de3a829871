"""A program of ours in a child process, in the interpreter of a cluster: this process does not talk to Ray."""

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

from curator_bench import safe_files
from curator_bench.measure.brands import brand
from curator_bench.measure.processes import RUN_VARIABLE, identify

_ENDS_WITHIN_S = 2.0
_SHOWN_BYTES = 300


class ProgramFailed(Exception):
    """It did not start, ended too early, did not answer in time, or could not do what it was asked."""


@dataclass(frozen=True, slots=True)
class Command:
    """A program to run by its path, in an interpreter that need not have curator_bench."""

    python: str
    program: Path
    env: Mapping[str, str]
    arguments: tuple[str, ...] = ()
    log_path: Path | None = None
    """The file that its output is added to. Without one, the last line of it is told when it fails."""
    working_dir: str | None = None
    own_mark: str | None = None
    """With the mark of the run in `env`, what all that it starts is branded with; None: not branded."""


class Program:
    """Answers in lines of JSON, by a descriptor of its own since Ray may print; ends when its input does."""

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
        """The child's identity, which stays its own when another process gets its number."""

    def ask(self, question: Any) -> None:
        """Send a line of JSON."""
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ProgramFailed(self._how_it_ended()) from error

    def answer(self, within_s: float) -> dict[str, Any]:
        """The next answer; one that only tells a problem is raised."""
        deadline = time.monotonic() + within_s
        while b"\n" not in self._unread:
            if not _is_readable(self._answers, deadline):
                raise ProgramFailed(f"no answer within {within_s:g} s")
            piece = os.read(self._answers, 65536)
            if not piece:
                raise ProgramFailed(self._how_it_ended())
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise ProgramFailed(answer["failed"])
        return answer

    def end(self) -> None:
        """End the program, if it has not ended, and reap it."""
        assert self._process.stdin
        try:
            self._process.stdin.close()
        except OSError:  # it has gone first
            self._process.kill()
        try:
            self._process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._answers)
        self._close_output()

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
            return "it answers no more"
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
