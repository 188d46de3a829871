"""The guard: whatever ends the process that runs entries, nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from curator_bench.cluster import temp_dirs
from curator_bench.cluster.environment import CLUSTER_VARIABLE
from curator_bench.execution.workbench import Workbench
from curator_bench.files import safe_files
from curator_bench.measure.processes import Mark, ProcessId, busyness, find_processes, identify, is_running

SOURCE = Path(__file__).parents[2] / "src"
# A bench that says its mark, starts the code it is given (by way of a fork, not of an exec), and does as it is told.
BENCH = """
import os, subprocess, sys, time
from pathlib import Path
from curator_bench.execution.workbench import Workbench
from curator_bench.measure.processes import Mark
bench = Workbench(Path(sys.argv[1]), int(sys.argv[2]) or None)
marked = {{**os.environ, **Mark(bench.marker).environment()}}
{code}
print(bench.marker, bench.guard.pid, flush=True)
{then}
"""
SLEEPS = "subprocess.Popen(['sleep', '600'], env=marked, start_new_session=True)"


def heed_signals() -> None:
    """As at a prompt, also where these tests run under nohup or in the background of a script."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


class Watched:
    """A process with a bench and a guard of its own."""

    def __init__(self, code: str, then: str, folder: Path, controller: int = 0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", BENCH.format(code=code, then=then), str(folder), str(controller)],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdout=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
            preexec_fn=heed_signals,
        )
        assert self.process.stdout
        marker, guard = self.process.stdout.readline().split()
        found = identify(int(guard))
        assert found
        self.mark, self.guard = Mark(marker), found

    def wait_until_nothing_is_left(self, within_s: float = 5) -> None:
        began = time.monotonic()
        while find_processes(self.mark) or is_running(self.guard):
            assert time.monotonic() - began < within_s * busyness(), "something is left"
            time.sleep(0.02)

    def processes(self, count: int, within_s: float = 20) -> list[ProcessId]:
        """Those that bear the mark, as soon as they are so many: within exec, a process has no environment to read."""
        began = time.monotonic()
        while len(found := list(find_processes(self.mark))) != count:
            assert time.monotonic() - began < within_s * busyness(), f"{len(found)} processes, not {count}"
            time.sleep(0.02)
        return found

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.wait_until_nothing_is_left(20)


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    started: list[Watched] = []

    def watch(code: str, then: str = "time.sleep(600)", controller: int = 0) -> Watched:
        started.append(Watched(code, then, tmp_path, controller))
        return started[-1]

    yield watch
    for one in started:
        one.end()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_however_the_process_dies_what_it_started_goes_with_it(
    watch: Callable[..., Watched], number: signal.Signals
) -> None:
    watched = watch(SLEEPS)
    watched.processes(1)
    watched.process.send_signal(number)
    watched.process.wait()
    watched.wait_until_nothing_is_left()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has brands")
def test_what_left_its_script_and_wiped_its_environment_goes_as_well(
    watch: Callable[..., Watched], tmp_path: Path
) -> None:
    leaves = (
        "import os; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0);"
        " os.execve('/bin/sleep', ['sleep', '600'], {})"
    )
    watched = watch(
        "from curator_bench.execution.child import Child\n"
        f"words = [sys.executable, '-c', {leaves!r}]\n"
        f"Child(words, env=marked, log=Path({str(tmp_path / 'log')!r}), cwd='/').wait(30)\n"
        "time.sleep(0.5)"
    )
    (left,) = watched.processes(1)
    assert Path(f"/proc/{left.pid}/environ").read_bytes() == b""
    watched.process.kill()
    watched.process.wait()
    watched.wait_until_nothing_is_left()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
@pytest.mark.parametrize("holds_the_pipe", [False, True])
def test_what_shed_every_mark_goes_when_the_process_is_killed(
    watch: Callable[..., Watched], tmp_path: Path, holds_the_pipe: bool
) -> None:
    note = tmp_path / "pid"
    sheds = (
        "import os, resource; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0);"
        f" resource.prlimit(0, 10, (-1, -1)); open({str(note)!r}, 'w').write(str(os.getpid()));"
        " os.execve('/bin/sleep', ['sleep', '600'], {})"
    )
    fork = "if os.fork() == 0:\n    os.setsid()\n    os.close(1)\n    time.sleep(15)\n    os._exit(0)\n"
    watched = watch(
        "from curator_bench.execution.child import Child\n"
        f"words = [sys.executable, '-c', {sheds!r}]\n"
        f"child = Child(words, env=marked, log=Path({str(tmp_path / 'log')!r}), cwd='/')\n"
        f"child.wait(30)\n"
        f"while not os.path.exists({str(note)!r}) or not open({str(note)!r}).read(): time.sleep(0.02)\n"
        + (fork if holds_the_pipe else "")
    )
    left = int(note.read_text())
    assert identify(left)
    watched.process.kill()
    watched.process.wait()
    deadline = time.monotonic() + 5 * busyness()
    while identify(left):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    watched.wait_until_nothing_is_left()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has ended")
def test_a_guard_that_a_script_stops_at_once_goes_on_when_the_process_is_killed(watch: Callable[..., Watched]) -> None:
    """No script starts before the guard has asked the kernel to let it go on."""
    stops = "bench.guard.wait_until_it_watches(); os.kill(bench.guard.pid, 19); os.kill(os.getpid(), 9)"
    watched = watch(SLEEPS, stops)
    watched.process.wait()
    watched.wait_until_nothing_is_left()


def test_a_fork_that_holds_the_pipe_open_does_not_deceive_the_guard(watch: Callable[..., Watched]) -> None:
    fork = "if os.fork() == 0:\n    os.setsid()\n    os.close(1)\n    time.sleep(15)\n    os._exit(0)"
    watched = watch(f"{SLEEPS}\n{fork}")
    watched.process.kill()
    watched.process.wait()
    watched.wait_until_nothing_is_left()


def test_what_was_just_being_started_is_ended_as_well(watch: Callable[..., Watched]) -> None:
    """Between fork and exec a process does not carry the mark yet."""
    late = (
        "parent = os.getpid()\n"
        "if os.fork() == 0:\n"
        "    os.setsid(); os.close(1)\n"
        "    while os.getppid() == parent: time.sleep(0.01)\n"
        "    time.sleep(0.2)\n"
        "    os.execve('/bin/sleep', ['sleep', '600'], marked)"
    )
    watched = watch(late)
    watched.process.kill()
    watched.process.wait()
    time.sleep(0.5)
    watched.wait_until_nothing_is_left()


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="Linux keeps shared memory there")
def test_shared_memory_goes_with_those_who_made_it(watch: Callable[..., Watched], tmp_path: Path) -> None:
    name = f"curator-bench-test-{os.getpid()}"
    maps = (
        "import mmap, sys, time; file = open('/dev/shm/' + sys.argv[1], 'a+b'); file.truncate(4096); "
        "held = mmap.mmap(file.fileno(), 4096); open(sys.argv[2], 'w'); time.sleep(600)"
    )
    ready = tmp_path / "ready"
    watched = watch(
        f"time.sleep(1); subprocess.Popen([sys.executable, '-c', {maps!r}, {name!r}, {str(ready)!r}], env=marked)\n"
        f"while not os.path.exists({str(ready)!r}): time.sleep(0.02)"
    )
    watched.process.kill()
    watched.process.wait()
    watched.wait_until_nothing_is_left()
    assert not Path("/dev/shm", name).exists()


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="Linux keeps shared memory there")
@pytest.mark.parametrize("then", ["os.kill(os.getpid(), 9)", "bench.close()"])
def test_shared_memory_that_is_told_of_is_removed_also_when_its_owners_have_ended(
    watch: Callable[..., Watched], then: str
) -> None:
    """Somebody else's processes end those of a run: Ray its workers, when their script ends."""
    name = Path(f"/dev/shm/curator-bench-test-{os.getpid()}")
    tell = f"file = Path({str(name)!r}); bench.guard.will_be_left([file, Path('/dev/shm/never-there')]); file.touch()"
    watched = watch(tell, f"sys.stdin.readline(); {then}")
    assert name.exists()
    assert watched.process.stdin
    watched.process.stdin.write("\n")
    watched.process.stdin.flush()
    watched.process.wait()
    watched.wait_until_nothing_is_left()
    assert not name.exists()


def test_a_signal_to_the_guard_does_not_stop_it_watching(watch: Callable[..., Watched]) -> None:
    watched = watch(SLEEPS)
    time.sleep(1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(watched.guard.pid, number)
    time.sleep(0.5)
    assert is_running(watched.guard)
    watched.process.kill()
    watched.process.wait()
    watched.wait_until_nothing_is_left()


def test_a_removal_that_is_cut_short_can_be_finished_by_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """The head of a cluster removes its folder too when we die, and is killed by the guard while it does."""
    folder = temp_dirs.make_temp_dir("marker-of-this-test", Mark("nobody", CLUSTER_VARIABLE))
    (folder / "session").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(safe_files, "remove", lambda *_, **__: None)
        patch.setattr(temp_dirs, "REMOVAL_PATIENCE_S", 0.1)
        temp_dirs.remove_temp_dir(folder)
    assert (folder / "owner.json").exists()
    temp_dirs.remove_leftovers("marker-of-this-test")
    assert not folder.exists()


@pytest.mark.parametrize("is_stopped", [False, True])
def test_in_good_order_the_guard_looks_once_more_and_is_gone(watch: Callable[..., Watched], is_stopped: bool) -> None:
    watched = watch(SLEEPS, "sys.stdin.readline(); bench.close(); print('closed', flush=True); time.sleep(600)")
    if is_stopped:  # as a script may do
        os.kill(watched.guard.pid, signal.SIGSTOP)
    assert watched.process.stdin
    assert watched.process.stdout
    watched.process.stdin.write("\n")
    watched.process.stdin.flush()
    assert watched.process.stdout.readline() == "closed\n"
    assert not find_processes(watched.mark)
    assert not is_running(watched.guard)
    assert watched.process.poll() is None


def test_closing_costs_next_to_nothing(tmp_path: Path) -> None:
    bench = Workbench(tmp_path)
    time.sleep(1)  # the guard has started
    began = time.monotonic()
    bench.close()
    assert time.monotonic() - began < 1


@pytest.mark.parametrize("heeds", [True, False])
def test_a_worker_does_not_outlive_its_controller(watch: Callable[..., Watched], tmp_path: Path, heeds: bool) -> None:
    """It is asked as by Ctrl-C first, so that it can note its run as interrupted; then it is killed."""
    note = tmp_path / "interrupted"
    controller = subprocess.Popen(["sleep", "600"])
    patience = f"Path({str(note)!r}).touch()" if heeds else "time.sleep(600)"
    watched = watch(SLEEPS, f"try:\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    {patience}", controller.pid)
    time.sleep(1.5)
    assert watched.process.poll() is None  # as long as there is a controller
    controller.kill()
    controller.wait()
    watched.process.wait(5 * busyness())
    watched.wait_until_nothing_is_left()
    assert note.exists() == heeds
