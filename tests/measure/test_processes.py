"""What `measure.processes` promises: all processes of a run are found and ended, and no other one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from other_user import needs_a_second_user, start

from curator_bench.measure.limit_marks import brand
from curator_bench.measure.processes import (
    GUARD_VARIABLE,
    Mark,
    ProcessId,
    busyness,
    end_processes,
    find_processes,
    identify,
    is_ending,
    is_running,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SLEEPS = "import time; time.sleep(600)"
DAEMON = """
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(600)
"""
FORGETS_ITS_ENVIRONMENT = """
import os, sys
open(sys.argv[2], "w").write(str(os.getpid()))
os.execve(sys.executable, [sys.executable, "-c", sys.argv[1]], {})
"""
STARTS = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", sys.argv[1], *sys.argv[2:]])
time.sleep(600)
"""
STARTS_IN_A_NEW_SESSION = STARTS.replace("])", "], start_new_session=True)")
IGNORES_SIGTERM = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).touch()
time.sleep(600)
"""
ENDS_WELL = """
import pathlib, signal, sys, time
def end(*_):
    time.sleep(0.3)
    pathlib.Path(sys.argv[1]).write_text("ended well")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
pathlib.Path(sys.argv[1]).touch()
time.sleep(600)
"""
CLEARS_UP_AFTER = """
import sys, time
watched, file = int(sys.argv[1]), sys.argv[2]
open(file, "w").write("clearing up")
while b") Z" not in open(f"/proc/{watched}/stat", "rb").read():
    time.sleep(0.01)
time.sleep(0.3)
open(file, "w").write("cleared up")
"""
IS_BORN_AGAIN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
open(sys.argv[1], "w").write("born")
for _ in range(2000):
    if os.fork():
        time.sleep(0.02)
        os._exit(0)
    os.setsid()
"""
LOSES_ITS_FIRST_THREAD = """
import ctypes, pathlib, sys, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
pathlib.Path(sys.argv[1]).touch()
ctypes.CDLL(None).syscall(60, 0)
"""
ENDS_ITS_OWN_RUN = """
import os, sys
from curator_bench.measure.processes import Mark, end_processes
left = end_processes(Mark(sys.argv[1]), [os.getpid(), os.getppid()], grace_s=0)
print(len(left), flush=True)
"""


BRANDS_ITSELF = """
limit = int(open(f"/proc/{sys.argv[1]}/limits").read().partition("Max file locks")[2].split()[0])
resource.setrlimit(10, (limit, resource.getrlimit(10)[1]))
print("branded", flush=True)
time.sleep(600)
"""


class Run:
    """Starts processes with a mark of their own, and ends the last of them whatever the test did."""

    def __init__(self) -> None:
        self.mark = Mark(uuid.uuid4().hex)
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, program: str, *arguments: str | Path, env: Mapping[str, str] | None = None) -> int:
        """Returns when its environment can be read: within exec, a process has none."""
        command = [sys.executable, "-c", program, *map(str, arguments)]
        environment = {**os.environ, **self.mark.environment()} if env is None else dict(env)
        self._started.append(process := subprocess.Popen(command, env=environment))
        shown = Path(f"/proc/{process.pid}/environ")
        wait_until(lambda: process.poll() is not None or not shown.exists() or shown.read_bytes() != b"")
        return process.pid

    def exit_code(self) -> int:
        return self._started[-1].wait(timeout=30 * busyness())

    def clean_up(self) -> None:
        """Also of children without the mark, as long as their parent lives."""
        alive = [process.pid for process in self._started if process.poll() is None]
        end_processes(self.mark, alive, grace_s=0)
        for process in self._started:
            process.kill()
            process.wait(timeout=30 * busyness())


@pytest.fixture
def run() -> Iterator[Run]:
    run = Run()
    yield run
    run.clean_up()
    assert end_processes(run.mark, grace_s=0) == frozenset()


def wait_until(condition: Callable[[], bool], within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s * busyness()
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def pids(run: Run, *roots: ProcessId | int) -> set[int]:
    return {process.pid for process in find_processes(run.mark, roots)}


def daemon(run: Run, tmp_path: Path) -> int:
    """The pid of a process that has left its parents, their group and their session."""
    run.start(DAEMON, tmp_path / "daemon")
    return written_pid(tmp_path / "daemon")


def forgetful(run: Run, tmp_path: Path) -> int:
    """The pid of a child that has wiped its environment and left its parent's session."""
    run.start(STARTS_IN_A_NEW_SESSION, FORGETS_ITS_ENVIRONMENT, SLEEPS, tmp_path / "forgetful")
    child = written_pid(tmp_path / "forgetful")
    wait_until(lambda: Path(f"/proc/{child}/environ").read_bytes() == b"")
    return child


def written_pid(file: Path) -> int:
    wait_until(lambda: file.exists() and bool(file.read_text()))
    return int(file.read_text())


def test_a_process_that_daemonised_is_found_by_its_mark(run: Run, tmp_path: Path) -> None:
    found = daemon(run, tmp_path)
    assert os.getsid(found) not in (0, os.getsid(0))
    assert pids(run) == {found}


def test_another_runs_processes_are_not_found(run: Run, tmp_path: Path) -> None:
    daemon(run, tmp_path)
    mark = run.mark.value
    assert find_processes(Mark(mark[:-1])) == find_processes(Mark(mark + "0")) == frozenset()
    assert find_processes(Mark(mark, "CURATOR_BENCH_OTHER")) == frozenset()


def test_a_child_with_a_wiped_environment_in_a_new_session_is_found_by_its_parent(run: Run, tmp_path: Path) -> None:
    child = forgetful(run, tmp_path)
    assert child in pids(run)


def test_an_orphan_with_a_wiped_environment_is_found_by_the_session_its_run_leads(run: Run, tmp_path: Path) -> None:
    started = subprocess.Popen(
        [sys.executable, "-c", STARTS, STARTS, FORGETS_ITS_ENVIRONMENT, SLEEPS, str(tmp_path / "forgetful")],
        env={**os.environ, **run.mark.environment()},
        start_new_session=True,
    )
    try:
        last = written_pid(tmp_path / "forgetful")
        wait_until(lambda: Path(f"/proc/{last}/environ").read_bytes() == b"")
        (middle,) = pids(run) - {started.pid, last}
        os.kill(middle, signal.SIGKILL)
        wait_until(lambda: identify(middle) is None)
        assert last in pids(run)
    finally:
        assert end_processes(run.mark, [started.pid], grace_s=0) == frozenset()
        started.wait(timeout=30 * busyness())


def test_the_tree_of_a_pid_is_found_without_any_mark(run: Run) -> None:
    root = run.start(STARTS, SLEEPS, env=os.environ)
    wait_until(lambda: len(find_processes(None, [root])) == 2)


def test_a_process_without_its_first_thread_is_still_found(run: Run, tmp_path: Path) -> None:
    pid = run.start(LOSES_ITS_FIRST_THREAD, tmp_path / "ready")
    wait_until((tmp_path / "ready").exists)
    time.sleep(0.2)
    assert pid in pids(run, pid)


def test_everything_a_run_started_is_ended(run: Run, tmp_path: Path) -> None:
    root = run.start(STARTS_IN_A_NEW_SESSION, SLEEPS)
    daemon(run, tmp_path)
    forgetful(run, tmp_path)
    wait_until(lambda: len(find_processes(run.mark, [root])) >= 5)
    before = find_processes(run.mark, [root])
    assert end_processes(run.mark, [root], grace_s=2) == frozenset()
    assert not any(is_running(process) for process in before)


def test_a_process_may_end_well_within_the_grace(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "file"
    run.start(ENDS_WELL, file)
    wait_until(file.exists)
    assert end_processes(run.mark, grace_s=20) == frozenset()
    assert file.read_text() == "ended well"
    assert run.exit_code() == 0


def test_a_process_that_ignores_sigterm_is_killed_after_the_grace(run: Run, tmp_path: Path) -> None:
    run.start(IGNORES_SIGTERM, tmp_path / "ready")
    wait_until((tmp_path / "ready").exists)
    began = time.monotonic()
    assert end_processes(run.mark, grace_s=0.5) == frozenset()
    assert 0.5 <= time.monotonic() - began < 5 * busyness()
    assert run.exit_code() == -signal.SIGKILL


def test_a_guard_that_clears_up_is_not_ended_in_the_middle_of_it(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "file"
    watched = run.start(SLEEPS)
    run.start(CLEARS_UP_AFTER, str(watched), file, env=guards_environment(run))
    wait_until(lambda: file.exists() and bool(file.read_text()))
    assert end_processes(run.mark, grace_s=0) == frozenset()
    assert file.read_text() == "cleared up"
    assert run.exit_code() == 0


def test_what_only_calls_itself_a_guard_is_ended_like_everything_else(run: Run) -> None:
    run.start(SLEEPS, env=guards_environment(run))
    assert end_processes(run.mark, grace_s=0, patience_s=1) == frozenset()
    assert run.exit_code() == -signal.SIGKILL


def guards_environment(run: Run) -> dict[str, str]:
    return {**os.environ, **run.mark.environment(), GUARD_VARIABLE: "1"}


def test_a_process_that_starts_others_while_it_is_hunted_does_not_get_away(run: Run, tmp_path: Path) -> None:
    run.start(IS_BORN_AGAIN, tmp_path / "ready")
    wait_until((tmp_path / "ready").exists)
    assert end_processes(run.mark, grace_s=0.2) == frozenset()
    time.sleep(0.2)
    assert pids(run) == set()


def test_looks_that_find_nothing_but_what_has_just_ended_are_no_proof(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = run.start(SLEEPS)
    real, ended = os.listdir, iter(range(2**22 + 1, 2**22 + 4))  # no system gives such numbers

    def before_its_birth(folder: str) -> list[str]:
        """As if the process had been born of another after the first three lists were made."""
        parent = next(ended, None) if folder == "/proc" else None
        return real(folder) if parent is None else [*(name for name in real(folder) if name != str(child)), str(parent)]

    monkeypatch.setattr(os, "listdir", before_its_birth)
    assert end_processes(run.mark, grace_s=0) == frozenset()
    assert run.exit_code() == -signal.SIGKILL


def test_who_ends_a_run_survives_it_and_so_do_its_parents(run: Run) -> None:
    bystander = run.start(SLEEPS)
    command = [sys.executable, "-c", ENDS_ITS_OWN_RUN, run.mark.value]
    parent = f"import subprocess; print(subprocess.call({command!r}))"
    environment = {**os.environ, **run.mark.environment(), "PYTHONPATH": os.pathsep.join(sys.path)}
    outcome = subprocess.run(
        [sys.executable, "-c", parent],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60 * busyness(),
        check=False,
    )
    assert outcome.stdout.split() == ["0", "0"], outcome.stderr
    assert run.exit_code() == -signal.SIGKILL
    assert identify(bystander) is None


def test_a_pid_that_was_given_to_another_process_is_left_alone(run: Run) -> None:
    process = identify(run.start(SLEEPS, env=os.environ))
    assert process
    earlier = ProcessId(process.pid, process.started - 1)
    assert not is_running(earlier)
    assert end_processes(None, [earlier], grace_s=0.2) == frozenset()
    assert is_running(process)


def test_what_waits_for_its_parent_counts_as_gone_and_keeps_its_exit_code(run: Run) -> None:
    run.start("raise SystemExit(7)")
    wait_until(lambda: pids(run) == set())
    began = time.monotonic()
    assert end_processes(run.mark, grace_s=30) == frozenset()
    assert time.monotonic() - began < 10 * busyness()
    assert run.exit_code() == 7


def test_one_look_is_cheap() -> None:
    processes = sum(name.isdigit() for name in os.listdir("/proc"))
    began = time.thread_time()
    for _ in range(10):
        find_processes(Mark("nobody"), settle=False)
    assert (time.thread_time() - began) / 10 < 0.0003 * processes + 0.002


@needs_a_second_user
def test_a_process_of_another_user_with_the_brand_of_a_run_is_none_of_it(run: Run) -> None:
    """Everybody can read limits and set his own. We could not end it, and the run would be an error."""
    own = run.start(SLEEPS)
    brand(own, run=run.mark.value, own="")
    with start(BRANDS_ITSELF, own) as theirs:
        assert theirs.stdout
        assert theirs.stdout.readline() == "branded\n"
        found = pids(run)
        theirs.kill()
    assert found == {own}


def test_a_process_that_was_killed_counts_as_ending_at_once() -> None:
    """Also where it has not had the processor since, as on a busy machine."""
    for _ in range(20):
        with subprocess.Popen(["sleep", "600"]) as process:
            identity = identify(process.pid)
            assert identity is not None
            assert not is_ending(identity)
            process.kill()
            assert is_ending(identity)
