"""The extra run of an entry under a profiler: real ones, and one that somebody else brings."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from curator_bench.execution.run import run_entry
from curator_bench.profiles import profile_of_speedscope, stacks_of
from curator_bench.values import WAITING, Plan, Profile, Profiling, RunResult, Verdict

if TYPE_CHECKING:
    from execution.conftest import Desk

COMPUTES_AND_WAITS = """
import time

def compute(seconds):
    began = time.process_time()
    while time.process_time() - began < seconds:
        sum(range(1000))

def pause(seconds):
    time.sleep(seconds)

def both():
    compute(0.3)
    time.sleep(0.5)

compute(0.6)
pause(0.9)
both()
write({"n": 1})
"""
OWN = """
import json, sys
from pathlib import Path

from curator_bench import Profile, Profiler


class Commands(Profiler):
    '''Stands for a tool that starts the script, such as nsys: a Python that notes its words before it becomes it.'''

    def command(self, words):
        notes = "import json, os, sys; name, *words = sys.argv[1:]; json.dump(words, open(name, 'w'))"
        notes += "; os.execv(words[0], words)"
        return [sys.executable, "-c", notes, str(self.run.folder / "words.json"), *words]

    def profiles(self):
        words = json.loads((self.run.folder / "words.json").read_text())
        return [Profile("words", "samples", 2.0, {("main", Path(words[1]).name): 7})]


class Broken(Profiler):
    def started(self, pid):
        raise RuntimeError("it broke")


class Unfit(Profiler):
    @classmethod
    def missing(cls):
        return "it needs a licence"


class NoProfiler:
    pass
"""


def profiled(desk: Desk, code: str, profiler: str = "py-spy", **more: object) -> tuple[RunResult, Path]:
    """The result of an extra run, and the folder where its profile is."""
    result = desk.run(code, profiling=Profiling(profiler, **more))  # type: ignore[arg-type]
    return result, desk.entry_dir / "artifacts" / "profiles" / profiler.rpartition(":")[2]


def ends_of(profile: Profile) -> Counter[str]:
    """Counts by last function; `NAME [waiting]` if it waited."""
    found: Counter[str] = Counter()
    for stack, count in profile.stacks.items():
        waits = stack[-1] == WAITING
        found[stack[-1 - waits].rpartition(":")[2] + (f" {WAITING}" if waits else "")] += count
    return found


def test_py_spy_tells_waiting_from_computing_and_leaves_its_texts_in_the_artifacts(desk: Desk) -> None:
    result, folder = profiled(desk, COMPUTES_AND_WAITS)
    assert (result.verdict, result.warnings) == (Verdict.PASSED, ())
    [profile] = result.profiles
    ends = ends_of(profile)
    assert (profile.profiler, profile.unit) == ("py-spy", "samples")
    assert 1.5 < profile.seconds < 60
    assert 60 < ends[f"pause {WAITING}"] < 200
    assert 25 < ends[f"both {WAITING}"] < 150
    assert ends["compute"] > 40
    # On a busy machine who computes also waits for a processor, now and then.
    sums = {name: ends[name] + ends[f"{name} {WAITING}"] for name in ("compute", "pause")}
    waits = {name: ends[f"{name} {WAITING}"] / count for name, count in sums.items()}
    assert waits["compute"] < 0.75 * waits["pause"]
    assert ("script:<module>", "script:both", "script:compute") in profile.stacks
    assert sorted(path.name for path in folder.iterdir()) == ["speedscope.json", "stacks.txt"]
    assert stacks_of((folder / "stacks.txt").read_text()) == profile.stacks
    assert profile_of_speedscope((folder / "speedscope.json").read_text()) == profile


def test_py_spy_sees_the_processes_of_a_script_and_native_code_if_asked_to(desk: Desk) -> None:
    code = """
    import subprocess, sys
    child = "import json\\ndef encode():\\n    for _ in range(60): json.dumps(list(range(100_000)))\\nencode()"
    subprocess.run([sys.executable, "-c", child], check=True)
    write({"n": 1})
    """
    result, _ = profiled(desk, code, native=True)
    [profile] = result.profiles
    in_child = {stack for stack in profile.stacks if "<string>:encode" in stack}
    assert any(".c:" in frame or ".so:" in frame for stack in in_child for frame in stack)
    assert any(stack[-1] == WAITING for stack in profile.stacks), "the parent waits for its child"
    assert not any("0x" in frame for stack in profile.stacks for frame in stack)


def test_the_verdict_of_a_script_is_its_own_and_a_failed_run_leaves_no_profile(desk: Desk) -> None:
    result, folder = profiled(desk, "import time; time.sleep(0.5); raise SystemExit(3)")
    assert (result.verdict, result.exit_code) == (Verdict.CRASHED, 3)
    assert (result.profiles, folder.exists()) == ((), False)
    assert (desk.entry_dir / "profile_1" / "logs" / "stdouterr.log").is_file()


def test_a_script_that_ends_before_py_spy_could_attach_is_a_warning(desk: Desk) -> None:
    result, _ = profiled(desk, "write({'n': 1}); os._exit(0)")
    assert result.verdict is Verdict.PASSED
    assert result.profiles == ()
    assert all(text.startswith("the profiler py-spy: ") for text in result.warnings)
    assert len(result.warnings) == 1


def test_a_py_spy_that_is_killed_costs_the_profile_instead_of_making_a_wrong_one(desk: Desk) -> None:
    code = """
    import os, pathlib, signal, time
    own = str(pathlib.Path(sys.argv[-1]).parents[1]).encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = pathlib.Path("/proc", name, "cmdline").read_bytes()
        except OSError:
            continue
        if b"/.script_computing.txt" in words and own in words:
            os.kill(int(name), signal.SIGKILL)
    time.sleep(0.5)
    write({"n": 1})
    """
    ready = "import time; time.sleep(2)\n"
    result, folder = profiled(desk, ready + textwrap.dedent(code))
    assert (result.verdict, result.profiles, folder.exists()) == (Verdict.PASSED, (), False)
    assert result.warnings == ("the profiler py-spy: py-spy ended before it could write what it had recorded",)


def test_memray_counts_what_was_held_by_the_script_and_the_processes_it_forks(desk: Desk) -> None:
    code = """
    import multiprocessing, time
    def hold(): return bytearray(30_000_000)
    def child(): kept = hold(); time.sleep(0.1)
    kept = hold()
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    write({"n": 1})
    """
    result, folder = profiled(desk, code, "memray")
    assert (result.verdict, result.warnings) == (Verdict.PASSED, ())
    [profile] = result.profiles
    assert (profile.profiler, profile.unit) == ("memray", "bytes")
    held = {stack: count for stack, count in profile.stacks.items() if stack[-1] == "script:hold"}
    assert held[("script:<module>", "script:hold")] == pytest.approx(30_000_000, rel=0.01)
    assert sum(held.values()) == pytest.approx(60_000_000, rel=0.01)
    assert sorted(path.name for path in folder.iterdir()) == ["speedscope.json", "stacks.txt"]


def test_a_python_without_memray_is_a_warning_that_says_what_to_install(desk: Desk, tmp_path: Path) -> None:
    python = tmp_path / "bare" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    python.chmod(0o755)
    code = "open(sys.argv[-1] + '/metrics.json', 'w').write('{}')"
    result = desk.run(code, profiling=Profiling("memray"), python=str(python))
    assert result.profiles == ()
    [warning] = [text for text in result.warnings if text.startswith("the profiler memray: ")]
    assert f"{python} cannot import memray; " in warning
    assert "pip install" in warning


def own(desk: Desk, name: str, code: str = "write({'n': 1})") -> tuple[RunResult, Path]:
    (desk.folder / "own.py").write_text(OWN)
    return profiled(desk, code, f"./own.py:{name}")


def test_a_profiler_of_others_puts_a_command_before_the_script_and_its_files_stay(desk: Desk) -> None:
    result, folder = own(desk, "Commands")
    assert (result.verdict, result.warnings) == (Verdict.PASSED, ())
    assert result.profiles == (Profile("Commands", "samples", 2.0, {("main", "script.py"): 7}),)
    assert json.loads((folder / "words.json").read_text())[0] == sys.executable
    assert {path.name for path in folder.iterdir()} == {"speedscope.json", "stacks.txt", "words.json"}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Broken", "RuntimeError: it broke"),
        ("Unfit", "it needs a licence"),
        ("NoProfiler", "is no subclass of curator_bench.Profiler"),
        ("Absent", "cannot be loaded"),
    ],
)
def test_a_profiler_that_fails_is_a_warning_and_the_script_runs(desk: Desk, name: str, problem: str) -> None:
    result, folder = own(desk, name)
    assert (result.verdict, result.profiles) == (Verdict.PASSED, ())
    [warning] = result.warnings
    assert warning.startswith(f"the profiler ./own.py:{name}: ")
    assert problem in warning
    assert not folder.exists()


def test_the_next_attempt_and_an_extra_run_have_folders_of_their_own(desk: Desk) -> None:
    plan: Plan = desk.plan("write({'n': 1})", attempt=2)
    (desk.folder / "own.py").write_text(OWN)
    extra = replace(plan, profiling=Profiling("./own.py:Commands", 2))
    for one in (desk.plan("write({'n': 1})"), plan, extra):
        assert run_entry(one, desk.bench).verdict is Verdict.PASSED
    assert (desk.entry_dir / "attempt_2" / "artifacts" / "profiles" / "Commands" / "stacks.txt").is_file()
    assert (desk.entry_dir / "attempt_2" / "profile_2" / "command.txt").is_file()
    assert not os.path.lexists(desk.entry_dir / "artifacts" / "profiles")
