"""A program of this room in a child process, in the interpreter of the cluster it is about: we do not talk to Ray."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_ENDS_WITHIN_S = 2.0
_SHOWN_BYTES = 300


class ProgramFailed(Exception):
    """It did not start, ended too early, did not answer in time, or could not do what it was asked."""


class Program:
    """Answers in lines of JSON, by a descriptor of its own since Ray may print; ends when its input does."""

    def __init__(self, python: str, name: str, env: Mapping[str, str]) -> None:
        """`name` stands in this room; its interpreter need not have curator_bench."""
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  closed by `end`
        self._answers, answer_to = os.pipe()
        self._unread = b""
        try:
            self._process = subprocess.Popen(
                [python, str(Path(__file__).with_name(name)), str(answer_to)],
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=self._said,
                stderr=self._said,
                pass_fds=(answer_to,),
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._answers)
            self._said.close()
            raise ProgramFailed(f"{python} did not start: {error}") from error
        finally:
            os.close(answer_to)

    def ask(self, question: Mapping[str, Any]) -> None:
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
        self._said.close()

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            return "it answers no more"
        size = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, size - _SHOWN_BYTES))
        last = self._said.read().decode("utf-8", "replace").strip().splitlines()[-1:]
        return ": ".join([f"it ended with exit code {code}", *last])


def _is_readable(descriptor: int, deadline: float) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(max(0.0, deadline - time.monotonic())))
