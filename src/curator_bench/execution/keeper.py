"""Start a program through a keeper (see keeper_program.py), which ends all its processes, however we end."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from curator_bench.execution.keeper_program import IN_GOOD_ORDER
from curator_bench.measure.processes import ProcessId, end_processes, identify, resume

_PROGRAM = "import sys; sys.path.append(sys.argv.pop(1)); import keeper_program; keeper_program.main()"
"""Imported from its folder, it is compiled once. Run as a file, it would be compiled at every start."""
_FOLDER = Path(__file__).parent
_ENDS_WITHIN_S = 12.0
_LOOKS_UP_EVERY_S = 1.0
"""A signal that comes just before a wait, or that the system hands to another thread, takes effect only after it."""
_KILLED = -9
_LONGEST_ANSWER = 4096
_START = re.compile(rb"started (\d{1,18}) (\d{1,18}\.\d{1,18}) (\d{1,18})")
_PROBLEM = re.compile(rb"problem (\d{1,9}) ([01])")
_END = re.compile(rb"ended (-?\d{1,9}) (\d{1,18}\.\d{1,18})")


class Keeper:
    """A program in its own session. `end` must be called."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        output: BinaryIO | None,
        keep_open: Sequence[int] = (),
        brand: int = 0,
    ) -> None:
        """Start the program. Its output goes to `output`, if given; it inherits the descriptors in `keep_open`."""
        command = _encoded(words, env, cwd)
        self.exit_code: int | None = None
        self.process: ProcessId | None = None
        self._ended_at = 0.0
        self._unread = b""
        life, self._life = os.pipe()
        self._answers, answers = os.pipe()
        os.set_blocking(self._life, False)  # the program may have filled the pipe and stopped its reader
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-IBSc", _PROGRAM, str(_FOLDER), *map(str, (life, answers, os.getpid(), brand))],
                stdin=subprocess.PIPE,
                stdout=output or subprocess.DEVNULL,
                stderr=subprocess.STDOUT,
                pass_fds=(life, answers, *keep_open),
                start_new_session=True,
                cwd="/",
            )
        except BaseException:
            os.close(self._life)
            os.close(self._answers)
            raise
        finally:
            os.close(life)
            os.close(answers)
        try:
            self._tell(command)
            self.pid, self.started, keeper = self._hear_of_start(words[0], cwd)
        except BaseException:
            self.end()
            raise
        self.process = identify(keeper)
        """The keeper process, parent of the program and its leftovers; None if it was killed."""

    def wait(self, until: float) -> bool:
        """Wait until a moment; true if the program ended. `exit_code` and `seconds` are final then."""
        while self.exit_code is None:
            line = self._answer(until)
            if line is None:
                return False
            if not line:
                self.exit_code, self._ended_at = _KILLED, time.monotonic()
            elif said := _END.fullmatch(line):
                self.exit_code, self._ended_at = int(said[1]), float(said[2])
        return True

    @property
    def seconds(self) -> float:
        """Seconds the program ran, or has run so far."""
        return (self._ended_at if self.exit_code is not None else time.monotonic()) - self.started

    def end(self) -> None:
        """End the program and all its processes."""
        if self._life < 0:
            return
        with suppress(OSError):
            os.write(self._life, IN_GOOD_ORDER)
        os.close(self._life)
        os.close(self._answers)
        self._life = -1
        self._process.send_signal(signal.SIGCONT)  # the program may have stopped its keepers
        if self.process:
            resume(self.process)
        try:
            self._process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            end_processes(None, [self.process] if self.process else [], grace_s=0)
            self._process.kill()
            self._process.wait()

    def _tell(self, command: bytes) -> None:
        assert self._process.stdin
        with suppress(BrokenPipeError), self._process.stdin as standard_input:  # it ended at once
            standard_input.write(command)

    def _hear_of_start(self, program: str, cwd: str) -> tuple[int, float, int]:
        while line := self._answer(float("inf")):
            if said := _START.fullmatch(line):
                return int(said[1]), float(said[2]), int(said[3])
            if said := _PROBLEM.fullmatch(line):
                number = int(said[1])
                raise OSError(number, os.strerror(number), cwd if said[2] == b"1" else program)
        raise OSError(0, "the process that starts it was ended", program)

    def _answer(self, until: float) -> bytes | None:
        """Read one line; empty if the keeper ended, None if none came in time.

        The program may find the pipe in /proc and write into it, also without end.
        """
        poll = select.poll()
        poll.register(self._answers, select.POLLIN | select.POLLHUP)
        while b"\n" not in self._unread:
            left_s = max(0.0, until - time.monotonic())
            if poll.poll(min(left_s, _LOOKS_UP_EVERY_S) * 1000):
                piece = os.read(self._answers, _LONGEST_ANSWER)
                if not piece:
                    return b""
                self._unread = (self._unread + piece)[-_LONGEST_ANSWER:]
            elif left_s <= _LOOKS_UP_EVERY_S:
                return None
            if not left_s:
                break
        line, is_whole, self._unread = self._unread.partition(b"\n")
        return line or b"?" if is_whole else None


def _encoded(words: Sequence[str], env: Mapping[str, str], cwd: str) -> bytes:
    if any("=" in name or not name for name in env):
        raise ValueError("illegal environment variable name")
    parts = [cwd, str(len(words)), *words, *(f"{name}={value}" for name, value in env.items())]
    if any("\0" in part for part in parts):
        raise ValueError("embedded null byte")
    return b"\0".join(map(os.fsencode, parts))
