"""A child process of this room: it runs one of our programs, answers in lines of JSON, ends when its input breaks."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curator_bench import safe_files
from curator_bench.cluster.environment import CLUSTER_VARIABLE
from curator_bench.measure.brands import brand
from curator_bench.measure.processes import RUN_VARIABLE, identify

_ENDED_WITHIN_S = 5.0


class ChildFailed(Exception):
    """The child did not start, ended too early, or did not answer in time."""


@dataclass(frozen=True, slots=True)
class ChildCommand:
    """`program` stands in this room, but runs in an interpreter that need not have curator_bench."""

    python: str
    program: str
    arguments: tuple[str, ...]
    env: Mapping[str, str]
    log_path: Path
    working_dir: str | None = None


class Child:
    """A running child. Whoever knows its mark ends it, with all that it started."""

    def __init__(self, command: ChildCommand) -> None:
        self._answers, answer_to = os.pipe()
        self._unread = b""
        try:
            self._process = _start(command, answer_to)
        except OSError as error:
            os.close(self._answers)
            raise ChildFailed(f"{command.python} did not start: {error}") from error
        finally:
            os.close(answer_to)
        brand(self._process.pid, run=command.env.get(RUN_VARIABLE, ""), own=command.env.get(CLUSTER_VARIABLE, ""))
        self.roots = tuple(filter(None, [identify(self._process.pid)]))
        """The child's identity, which stays its own when another process gets its number."""

    def ask(self, question: str) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(question.encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ChildFailed(self._how_it_ended()) from error

    def answer(self, within_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + within_s
        while b"\n" not in self._unread:
            if not _is_readable(self._answers, deadline):
                raise ChildFailed(f"no answer within {within_s:g} s")
            piece = os.read(self._answers, 65536)
            if not piece:
                raise ChildFailed(self._how_it_ended())
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def reap(self) -> None:
        """Reap the child after it has ended."""
        os.close(self._answers)
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait()

    def _how_it_ended(self) -> str:
        try:
            return f"it ended with exit code {self._process.wait(timeout=_ENDED_WITHIN_S)}"
        except subprocess.TimeoutExpired:
            return "it answers no more"


def _start(command: ChildCommand, answer_to: int) -> subprocess.Popen[bytes]:
    command.log_path.parent.mkdir(parents=True, exist_ok=True)
    program = Path(__file__).with_name(command.program)
    with safe_files.open_to_append(command.log_path) as log:
        return subprocess.Popen(
            [command.python, str(program), str(answer_to), *command.arguments],
            env=dict(command.env),
            cwd=command.working_dir,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=(answer_to,),
            start_new_session=True,
        )


def _is_readable(descriptor: int, deadline: float) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(max(0.0, deadline - time.monotonic())))
