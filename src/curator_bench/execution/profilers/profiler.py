"""The interface of every profiler. Others write a subclass, and usually no more than `command`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from curator_bench.values import Profile


@dataclass(frozen=True, slots=True)
class ProfiledRun:
    """The extra run of an entry, passed to a profiler: `Profiler(run)`."""

    name: str
    """Name of the entry, with its axis values in brackets."""
    folder: Path
    """Folder for the profiler's files. All that is in it at the end stays with the run, in artifacts/profiles."""
    python: str
    """Interpreter of the script."""
    working_dir: str
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment of the script, with the address and token of its cluster."""
    log: Path = Path()
    """Output of the script."""
    cluster_pids: tuple[int, ...] = ()
    """Processes whose children are the workers of the run's own Ray cluster; empty without one."""
    native: bool = False
    """True if functions of native code are asked for, too (--bench-profile-native)."""


class Profiler:
    """Profiles one run. An exception is a warning of the run, whatever it is, and never fails it."""

    def __init__(self, run: ProfiledRun) -> None:
        self.run = run

    @classmethod
    def missing(cls) -> str:
        """Say what has to be installed, and how; empty if nothing. Asked once, before anything runs."""
        return ""

    def command(self, words: list[str]) -> list[str]:
        """Return the command to run instead of the script's, such as `nsys profile -o FILE` before its words."""
        return words

    def started(self, pid: int) -> None:
        """Attach to the script, which has just started. Its time counts until this returns."""

    def stop(self) -> None:
        """Stop profiling. The script has ended, or its time is over; its cluster still runs."""

    def profiles(self) -> Sequence[Profile]:
        """Read what was recorded. Called after the script's processes have ended, if it succeeded.

        A profiler whose files are all there is to see returns none.
        """
        return ()

    def warnings(self) -> tuple[str, ...]:
        """Warnings for the readers of the profile, each once."""
        return ()
