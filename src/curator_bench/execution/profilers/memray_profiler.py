"""memray: the memory that a script and the processes it forks held when each of them held most, by what allocated it.

memray runs inside a process, so workers of Ray and programs that a script starts are not seen. It needs to be installed
for the script's Python.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from curator_bench.errors import BenchError
from curator_bench.execution.child import run_child
from curator_bench.execution.installing import install_command
from curator_bench.execution.profilers.profiler import ProfiledRun, Profiler
from curator_bench.files import safe_files
from curator_bench.measure.programs import question
from curator_bench.profiles import stacks_of
from curator_bench.values import Profile

_PROGRAM = "import sys; sys.path.append(sys.argv.pop(1)); import memray_program; memray_program.main()"
_FOLDER = Path(__file__).parent
_CHECK = "import memray"
_CHECKED_WITHIN_S = 60.0
_READ_WITHIN_S = 600.0
_LARGEST = 256 << 20


class Memray(Profiler):
    """Runs the script under `memray run`."""

    def __init__(self, run: ProfiledRun) -> None:
        super().__init__(run)
        self._records, self._stacks = run.folder / "memray.bin", run.folder / ".memray.txt"
        self._began = self._ended = 0.0
        self._problems: list[str] = []

    @classmethod
    def missing(cls) -> str:
        if find_spec("memray") is not None:
            return ""
        return f"memray is not installed; {install_command(sys.executable, ['memray'])} installs it"

    def command(self, words: list[str]) -> list[str]:
        self._check()
        python, *script = words
        native = ["--native"] if self.run.native else []
        options = ["--quiet", "--force", "--follow-fork", *native, "--output", str(self._records)]
        return [python, "-m", "memray", "run", *options, *script]

    def _check(self) -> None:
        """Raise BenchError if the script's Python has no memray."""
        words = question(self.run.python, _CHECK)
        try:
            subprocess.run(words, env=dict(self.run.env), capture_output=True, timeout=_CHECKED_WITHIN_S, check=True)
        except (OSError, ValueError, subprocess.SubprocessError):
            install = install_command(self.run.python, ["memray"])
            raise BenchError(f"{self.run.python} cannot import memray; {install} installs it") from None

    def started(self, pid: int) -> None:
        self._began = self._ended = time.monotonic()

    def stop(self) -> None:
        self._ended = time.monotonic()

    def profiles(self) -> Sequence[Profile]:
        words = [self.run.python, "-c", _PROGRAM, str(_FOLDER), str(self._records), str(self._stacks)]
        ended = run_child(
            words,
            env=self.run.env,
            log=self.run.folder / ".memray.log",
            cwd=str(self.run.folder),
            timeout_s=_READ_WITHIN_S,
            below=self.run.folder,
        )
        if ended.exit_code != 0:
            said = safe_files.read_end(self.run.folder / ".memray.log", 300, below=self.run.folder)
            last = said.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it took too long"]
            raise BenchError(f"what memray recorded could not be read: {last[0]}")
        text = safe_files.read_bytes(self._stacks, below=self.run.folder, most_bytes=_LARGEST).decode(
            "utf-8", "replace"
        )
        self._remove_records()
        return [Profile("memray", "bytes", self._ended - self._began, stacks_of(text))]

    def _remove_records(self) -> None:
        for name in safe_files.names_in(self.run.folder, below=self.run.folder):
            if name.startswith(("memray.bin", ".memray.")):
                safe_files.remove(self.run.folder / name, below=self.run.folder)
