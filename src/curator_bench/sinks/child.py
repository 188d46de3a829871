"""Sinks whose library runs in a child process: start it, talk to it, end it.

The library's imports, output and environment stay in the child. It runs at a lower priority than the benchmarks, and a
call that hangs can be ended.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, ClassVar

from curator_bench.errors import BenchError
from curator_bench.files.codec import json_line
from curator_bench.sinks.messages import Message, to_message
from curator_bench.sinks.sink import Config, Refused, Sink, TryLater
from curator_bench.values import Run, RunRecord, Session, Summary

_PROGRAM = "curator_bench.sinks.child_program"
_LAST_LINES = 3
_PATIENCE_S = 5


class ChildSink(Sink[Config]):
    """A sink that passes every call on to the `worker` sink, which has the same settings, in a child process."""

    worker: ClassVar[str]
    """The sink class in the child, as `module:Class`."""

    _child: _Child | None = None
    _session: Session | None = None

    def environment(self) -> Mapping[str, str]:
        """Return environment variables for the child. They override the inherited ones."""
        return {}

    def start_session(self, session: Session) -> None:
        self._session = session
        self._ask("start_session", [session])

    def run_started(self, run: Run) -> None:
        self._ask("run_started", [run])

    def run_finished(self, result: RunRecord) -> None:
        self._ask("run_finished", [result])

    def runs_finished(self, results: Sequence[RunRecord]) -> None:
        self._ask("runs_finished", results)

    def end_session(self, summary: Summary) -> None:
        self._ask("end_session", [summary])

    def abandon(self) -> None:
        if self._child is not None:
            self._child.kill()

    def close(self) -> None:
        if self._child is not None:
            self._child.end()

    def _ask(self, method: str, messages: Sequence[Message]) -> None:
        """Send a call to the child. If the child has ended, start another and repeat `start_session` first."""
        if self._child is None or not self._child.is_alive:
            self.close()
            self._child = self._new_child()
            if method != "start_session" and self._session is not None:
                self._tell(self._child, "start_session", [self._session])
        self._tell(self._child, method, messages)

    def _new_child(self) -> _Child:
        child = _Child({**os.environ, **self.environment()})
        context = {name: str(getattr(self.context, name)) for name in ("name", "session_dir", "matrix_dir")}
        start = {"worker": self.worker, "config": self.config.model_dump(mode="json"), "context": context}
        child.ask({**start, "secrets": sorted(self.context.mask.values)})
        return child

    def _tell(self, child: _Child, method: str, messages: Sequence[Message]) -> None:
        answer = child.ask({"method": method, "messages": [to_message(one) for one in messages]})
        while answer.get("alive"):
            self.context.alive()
            answer = child.answer()
        for uid, url in answer.get("links", ()):
            self.context.link(uid, url)
        for text in answer.get("said", ()):
            self.context.say(text)
        if error := answer.get("error"):
            raise _error(error)


def _error(error: Mapping[str, Any]) -> Exception:
    if error["kind"] == "refused":
        return Refused(error["text"])
    if error["kind"] == "later":
        return TryLater(error["text"], error["after_s"])
    return ChildError(error["text"])


class ChildError(BenchError):
    """An error in the child, with its message."""


class _Child:
    """The child process, and the lines of JSON exchanged with it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._was_ended = False
        self._printed: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed by `end`
        self._folder = tempfile.mkdtemp(prefix="curator-bench-sink-")
        """For temporary files of the library, which it may leave behind."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _PROGRAM, self._folder],  # -P: not from the working folder
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            env={**environment, "TMPDIR": self._folder},
            start_new_session=True,
        )

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        with suppress(OSError):  # `answer` reports a child that is gone
            self._process.stdin.write(json_line(question))
            self._process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """Read the next line of the child. Raises ChildError if the child has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            if self._was_ended:
                raise ChildError("its process was ended for this reason")
            raise ChildError(f"its process ended with exit code {code}{self._last_lines()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        """Close the child's input, which ends it. Kill it if it is still alive after a few seconds."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE_S)
        self.kill()
        self._printed.close()

    def kill(self) -> None:
        """Kill the process group of the child, and remove its temporary files.

        This is safe: a process id is not reused before it was waited for.
        """
        if self._process.poll() is None:
            self._was_ended = True
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _last_lines(self) -> str:
        self._printed.seek(0)
        lines = self._printed.read().decode("utf-8", "replace").strip().splitlines()[-_LAST_LINES:]
        return f": {' / '.join(lines)}" if lines else ""
