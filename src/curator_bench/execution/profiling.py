"""The profiler of an extra run, wrapped so that it never fails the run, and what it leaves in the run's artifacts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from curator_bench.cluster.model import Cluster
from curator_bench.errors import BenchError
from curator_bench.execution.directories import ARTIFACTS, Directories, attempt_top, directories_of
from curator_bench.execution.profilers.profiler import ProfiledRun, Profiler
from curator_bench.execution.profilers.registry import profiler_class, short_name
from curator_bench.files import safe_files
from curator_bench.profiles import bounded, clean_stack, collapsed, speedscope
from curator_bench.values import Plan, Profile

FOLDER = "profiles"
STACKS_FILE, SPEEDSCOPE_FILE = "stacks.txt", "speedscope.json"
PROBLEM = "the profiler "
"""Beginning of the warnings of an extra run that are about its profiler."""
_LONGEST = 500
_Answer = TypeVar("_Answer")


class Profiling:
    """The profiler of one execution. Its exceptions are warnings."""

    def __init__(self, plan: Plan, env: Mapping[str, str], cluster: Cluster | None, log: Path) -> None:
        self._plan, self._log = plan, log
        assert plan.profiling
        self._name = short_name(plan.profiling.profiler)
        self.place = place_of(plan)
        self._folder = self.place.large / ARTIFACTS / FOLDER / self._name
        self._warnings: list[str] = []
        self._profiler = self._guarded(lambda: self._make(env, cluster), None)

    def _make(self, env: Mapping[str, str], cluster: Cluster | None) -> Profiler:
        plan, asked = self._plan, self._plan.profiling
        assert asked
        safe_files.remove(self._folder, below=self.place.large_below)
        safe_files.make_folder(self._folder, below=self.place.large_below)
        if cluster is not None and not cluster.pids:
            self._warn("workers of a cluster that is not the run's own are not profiled")
        pids = cluster.pids[-1:] if cluster else ()  # the last one is the raylet
        run = ProfiledRun(
            name=plan.name,
            folder=self._folder,
            python=plan.python,
            working_dir=plan.working_dir,
            env=env,
            log=self._log,
            cluster_pids=pids,
            native=asked.native,
        )
        found = profiler_class(asked.profiler, Path(plan.working_dir))
        if missing := found.missing():
            raise BenchError(missing)
        return found(run)

    def command(self, words: list[str]) -> list[str]:
        """Return the command to run. A profiler that fails here is not asked again."""
        if (profiler := self._profiler) is None:
            return words
        found: list[str] | None = self._guarded(lambda: list(profiler.command(words)), None)
        if found is None:
            self._profiler = None
        return words if found is None else found

    def started(self, pid: int) -> None:
        if (profiler := self._profiler) is not None:
            self._guarded(lambda: profiler.started(pid), None)

    def stop(self) -> None:
        if (profiler := self._profiler) is not None:
            self._guarded(profiler.stop, None)

    def finish(self, *, has_passed: bool) -> tuple[Profile, ...]:
        """Return the profiles, and write them beside the profiler's own files. Nothing stays of a failed run."""
        nothing: tuple[Profile, ...] = ()
        found = self._guarded(self._read, nothing) if has_passed else nothing
        if not (has_passed and self._has_files()):
            safe_files.remove(self._folder, below=self.place.large_below)
        return found

    @property
    def warnings(self) -> tuple[str, ...]:
        if (profiler := self._profiler) is not None:
            for problem in self._guarded(lambda: list(map(str, profiler.warnings())), list[str]()):
                self._warn(problem)
        return tuple(dict.fromkeys(self._warnings))

    def _read(self) -> tuple[Profile, ...]:
        profiler = self._profiler
        if profiler is None:
            return ()
        found = tuple(self._with_names(number, one) for number, one in enumerate(profiler.profiles()))
        for number, one in enumerate(found):
            self._write(one, number)
        return found

    def _with_names(self, number: int, profile: Profile) -> Profile:
        """Mask and bound a profile, and name it after its profiler; further ones keep the name they were given."""
        mask = self._plan.mask
        stacks: dict[tuple[str, ...], int] = {}
        for frames, count in profile.stacks.items():
            stack = clean_stack(map(mask.hide, map(str, self._own(frames))))
            stacks[stack] = stacks.get(stack, 0) + int(count)
        name = self._name if number == 0 else f"{self._name}:{short_name(profile.profiler)}"
        return bounded(replace(profile, profiler=name, stacks=stacks))

    def _own(self, frames: Sequence[str]) -> Sequence[str]:
        """Leave out the frames below the code that is profiled, if the plan names where it begins."""
        assert self._plan.profiling
        after = self._plan.profiling.after
        places = [place for place, name in enumerate(frames) if after and name.endswith(after)]
        return frames[places[-1] + 1 :] or frames if places else frames

    def _write(self, profile: Profile, number: int) -> None:
        prefix = "" if number == 0 else short_name(profile.profiler) + "."
        for name, text in (
            (STACKS_FILE, collapsed(profile.stacks)),
            (SPEEDSCOPE_FILE, speedscope(profile, self._plan.name)),
        ):
            safe_files.write_text(self._folder / (prefix + name), text, below=self.place.large_below)

    def _has_files(self) -> bool:
        return bool(self._guarded(lambda: safe_files.names_in(self._folder, below=self.place.large_below), list[str]()))

    def _guarded(self, call: Callable[[], _Answer], otherwise: _Answer) -> _Answer:
        try:
            return call()
        except BenchError as error:
            self._warn(str(error))
        except Exception as error:  # a profiler never fails a run
            self._warn(f"{type(error).__name__}: {error}")
        return otherwise

    def _warn(self, problem: str) -> None:
        assert self._plan.profiling
        self._warnings.append(f"{PROBLEM}{self._plan.profiling.profiler}: {problem}"[:_LONGEST])


def remove_extra_run(plan: Plan) -> None:
    """Remove the folder of an extra run that passed: what it was for is in the folder of the run it belongs to."""
    extra = directories_of(plan, attempt_top(plan))
    for folder, below in ((extra.top, extra.below), (extra.large, extra.large_below)):
        with suppress(OSError):  # a folder too much
            safe_files.remove(folder, below=below)


def place_of(plan: Plan) -> Directories:
    """Return the folders of the run that an extra run belongs to."""
    measured = replace(plan, profiling=None)
    return directories_of(measured, attempt_top(measured))
