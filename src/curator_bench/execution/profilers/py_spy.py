"""py-spy: samples the stacks of all processes of a run from outside, also of the workers of its Ray cluster.

py-spy leaves out threads that wait, or with --idle takes all threads without telling which of them wait. So two of it
look at each process at the same time, and `py_spy_stacks` tells computing and waiting apart. One run with two
recordings is cheaper than two runs, which would also differ by more than chance.

The first stops the script for each sample: of code that calls tiny functions, one stack in six is wrong if it is read
while it changes. The second never stops it (--nonblocking): two that stop one process disturb each other, and a stack
that waits does not change. Workers of Ray are stopped by neither, unless native code is asked for: each has dozens of
threads, and stopping them all costs more than the samples are worth.

py-spy attaches to the script instead of starting it: the script's exit code and its processes stay with our keeper.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from curator_bench.execution.child import Child
from curator_bench.execution.installing import install_command
from curator_bench.execution.profilers.profiler import ProfiledRun, Profiler
from curator_bench.execution.profilers.py_spy_stacks import pace_of, stacks_of_recordings
from curator_bench.files import safe_files
from curator_bench.measure.processes import identify, is_running, patience
from curator_bench.values import Profile

SAMPLES_PER_S = 100
_ATTACHES_WITHIN_S = 10.0
_WRITES_WITHIN_S = 20.0
_TRIES = 5
_LOOKS_EVERY_S = 0.01
_LARGEST = 256 << 20
_ATTACHED = "Sampling process"
_FORBIDDEN = ("permission denied", "operation not permitted", "os error 1)")
_ALLOW = (
    "py-spy may not look into other processes here; run as root, in a container with --cap-add SYS_PTRACE, or set "
    "kernel.yama.ptrace_scope to 0 (sysctl)"
)
_LOG_LEVEL = {"RUST_LOG": "py_spy::sampler=warn"}
"""Variable with which py-spy says why it could not attach to a process."""


class PySpy(Profiler):
    """Two recordings of the script, and two of its cluster."""

    def __init__(self, run: ProfiledRun) -> None:
        super().__init__(run)
        self._recordings: list[_Pair] = []
        self._problems: list[str] = []

    @classmethod
    def missing(cls) -> str:
        return (
            "" if program() else f"py-spy is not installed; {install_command(sys.executable, ['py-spy'])} installs it"
        )

    def started(self, pid: int) -> None:
        wait_until_executed(pid, self.run.python)
        pairs = [_Pair(f"ray_{number}", number, self.run, stops=False) for number in self.run.cluster_pids]
        for pair in [_Pair("script", pid, self.run, stops=True), *pairs]:
            self._recordings.append(pair)
            if problem := pair.attach():
                self._problems.append(problem)

    def stop(self) -> None:
        for pair in self._recordings:
            pair.stop()

    def profiles(self) -> Sequence[Profile]:
        """Return one profile of all processes; none if a part is missing, because it would look like a change."""
        parts = [pair.stacks() for pair in self._recordings]
        if None in parts and not self._problems:
            self._problems.append("py-spy ended before it could write what it had recorded")
        found: Counter[tuple[str, ...]] = Counter()
        for part in parts if None not in parts else ():
            found.update(part)
        seconds = max((pair.seconds for pair in self._recordings), default=0.0)
        return [Profile("py-spy", "samples", seconds, dict(found))] if found else []

    def warnings(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._problems))


class _Pair:
    """Two recordings of a process and its descendants: of the threads that compute, and of all threads."""

    def __init__(self, name: str, pid: int, run: ProfiledRun, *, stops: bool) -> None:
        how = ["--native"] if run.native else [] if stops else ["--nonblocking"]
        self._computing = _Recording(f"{name}_computing", pid, how, run)
        self._everything = _Recording(f"{name}_everything", pid, ["--idle", "--nonblocking"], run)
        self._pid = pid
        self._began = self._ended = 0.0

    @property
    def seconds(self) -> float:
        return self._ended - self._began

    def attach(self) -> str:
        """Start both, and wait until they sample. Return what prevents it; empty if the process has just ended."""
        for _ in range(_TRIES):
            if _is_forbidden(self._pid):
                return _ALLOW
            for one in self._both():
                one.start()
            problems = [problem for one in self._both() if (problem := one.wait_until_attached())]
            self._began = self._ended = time.monotonic()
            if not problems:
                return ""
            self._end()
            if _ALLOW in problems:
                return _ALLOW
            if identify(self._pid) is None:
                return "the script ended before py-spy could attach"
        return problems[0]

    def stop(self) -> None:
        for one in self._both():
            one.interrupt()
        self._ended = time.monotonic()
        for one in self._both():
            one.end()

    def stacks(self) -> dict[tuple[str, ...], int] | None:
        """Return the stacks; None if a recording is missing, without which the other one says nothing."""
        pace = pace_of(self.seconds, self._computing.said(), self._everything.said())
        computing, everything = self._computing.text(), self._everything.text()
        if computing is None or everything is None:
            return None
        return stacks_of_recordings(computing, everything, pace)

    def _end(self) -> None:
        for one in self._both():
            one.end(within_s=0.0)

    def _both(self) -> Iterator[_Recording]:
        yield self._computing
        yield self._everything


class _Recording:
    """One py-spy. Its keeper and the guard end it, however we end."""

    def __init__(self, name: str, pid: int, options: Sequence[str], run: ProfiledRun) -> None:
        self._output, self._log = run.folder / f".{name}.txt", run.folder / f".{name}.log"
        self._run = run
        self._words = [program() or "py-spy", "record", "--subprocesses", "--pid", str(pid), "--rate"]
        self._words += [str(SAMPLES_PER_S), "--format", "raw", "--output", str(self._output), *options]
        self._child: Child | None = None

    def start(self) -> None:
        env = {**self._run.env, **_LOG_LEVEL}
        self._child = Child(self._words, env=env, log=self._log, cwd=self._run.working_dir, below=self._run.folder)

    def wait_until_attached(self) -> str:
        """Return an empty text once it samples, or the reason why it does not."""
        assert self._child
        deadline = time.monotonic() + patience(_ATTACHES_WITHIN_S)
        while time.monotonic() < deadline:
            has_ended = self._child.wait_for(_LOOKS_EVERY_S)
            said = self.said()
            if _ATTACHED in said:
                return ""
            if has_ended:
                return _reason(said)
        return f"py-spy did not attach within {patience(_ATTACHES_WITHIN_S):.0f} s"

    def interrupt(self) -> None:
        """Ask py-spy to write what it has, unless it does so already because the process ended."""
        process = self._child.process if self._child else None
        if process is not None and is_running(process):
            os.kill(process.pid, signal.SIGINT)

    def end(self, within_s: float = _WRITES_WITHIN_S) -> None:
        child, self._child = self._child, None
        if child is not None:
            try:
                child.wait_for(patience(within_s))
            finally:
                child.end(grace_s=0)

    def text(self) -> str | None:
        """Read the recording, and remove its files. None if py-spy had not attached, or was killed."""
        try:
            content = safe_files.read_bytes(self._output, below=self._run.folder, most_bytes=_LARGEST)
        except FileNotFoundError:
            content = None
        for file in (self._output, self._log):
            safe_files.remove(file, below=self._run.folder)
        return None if content is None else content.decode("utf-8", "replace")

    def said(self) -> str:
        """Return the end of what py-spy printed."""
        try:
            return safe_files.read_end(self._log, 65536, below=self._run.folder).decode("utf-8", "replace")
        except OSError:
            return ""


def program() -> str | None:
    """Return the path of py-spy: beside this Python, else in PATH."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.is_file() else shutil.which("py-spy")


def wait_until_executed(pid: int, python: str, within_s: float = 2.0) -> None:
    """Wait until a process that was just started runs Python. Before, it is our keeper's fork, or a shell script."""
    if sys.platform != "linux":
        return
    own, deadline = os.path.basename(os.path.realpath(python)), time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            program, words = os.readlink(f"/proc/{pid}/exe"), Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended
            return
        is_python = "python" in os.path.basename(program) or os.path.basename(program) == own
        if is_python and b"keeper_program" not in b" ".join(words[:3]):
            return
        time.sleep(0.002)


def _is_forbidden(pid: int) -> bool:
    """True if the system does not let us read the memory of the process (Linux)."""
    try:
        with open(f"/proc/{pid}/mem", "rb"):
            return False
    except PermissionError:
        return True
    except OSError:  # it has ended, or there is no /proc
        return False


def _reason(said: str) -> str:
    if any(text in said.lower() for text in _FORBIDDEN):
        return _ALLOW
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return f"py-spy could not attach: {lines[-1] if lines else 'it said nothing'}"
