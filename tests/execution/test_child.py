"""A child process of a run: its output in a file, its wait without waking up, its end with all that came of it."""

from __future__ import annotations

import json
import mmap
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from curator_bench.errors import BenchError
from curator_bench.execution.child import Child, run_child
from curator_bench.measure.processes import busyness, find_processes, identify, is_running

LEAVES_EVERYTHING = """
import os, subprocess, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1], "w").write(str(os.getpid()))
        os.execve("/bin/sleep", ["sleep", "600"], {})
    os._exit(0)
os.wait()
time.sleep(600)
"""


def wait_until(condition: Callable[[], object], within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Child]]:
    children: list[Child] = []

    def start(code: str, *arguments: object, **more: object) -> Child:
        words = [sys.executable, "-c", code, *map(str, arguments)]
        env = dict(os.environ)
        children.append(Child(words, env=env, log=tmp_path / "log", cwd=str(tmp_path), **more))  # type: ignore[arg-type]
        return children[-1]

    yield start
    for child in children:
        child.end()


def test_the_end_of_a_child_is_seen_at_once_with_its_exit_code(start: Callable[..., Child]) -> None:
    child = start("import time; time.sleep(0.5); raise SystemExit(7)")
    ended = child.wait(30)
    assert ended.exit_code == 7
    assert 0.5 <= ended.seconds < 10 * busyness()


def test_waiting_costs_no_processor_time(start: Callable[..., Child]) -> None:
    child = start("import time; time.sleep(600)")
    before = resource.getrusage(resource.RUSAGE_THREAD)
    assert child.wait(2).exit_code is None
    after = resource.getrusage(resource.RUSAGE_THREAD)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.02
    assert after.ru_nvcsw - before.ru_nvcsw < 10  # it slept in one go, or nearly so


def test_ctrl_c_that_another_thread_received_ends_the_wait(start: Callable[..., Child]) -> None:
    """The system may hand a signal to any thread; the wait of the main thread is then not interrupted."""
    child = start("import time; time.sleep(600)")
    has_ended = threading.Event()
    other = threading.Thread(target=has_ended.wait, args=[60])
    other.start()
    hand_over = threading.Timer(0.5, lambda: signal.pthread_kill(other.ident or 0, signal.SIGINT))
    hand_over.start()
    before, began = signal.signal(signal.SIGINT, signal.default_int_handler), time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            child.wait(60)
    finally:
        signal.signal(signal.SIGINT, before)
        has_ended.set()
    assert time.monotonic() - began < 30 * busyness()


def test_no_time_at_all_is_a_timeout_at_once(start: Callable[..., Child]) -> None:
    assert start("import time; time.sleep(600)").wait(0).exit_code is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has brands")
def test_what_left_its_tree_and_wiped_its_mark_is_ended_though_its_script_ended_at_once(
    start: Callable[..., Child], tmp_path: Path
) -> None:
    note = tmp_path / "pid"
    child = start(LEAVES_EVERYTHING.replace("time.sleep(600)", ""), note)
    assert child.wait(30).exit_code == 0
    wait_until(lambda: note.exists() and note.read_text())
    pid = int(note.read_text())
    wait_until(lambda: Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep"))
    child.end()
    assert identify(pid) is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
@pytest.mark.parametrize("then", ["", "time.sleep(600)", "os.abort()"])
def test_what_shed_every_mark_is_ended_though_nobody_saw_it(
    start: Callable[..., Child], tmp_path: Path, then: str
) -> None:
    note = tmp_path / "pid"
    sheds = LEAVES_EVERYTHING.replace("        open", "        resource.prlimit(0, 10, (-1, -1))\n        open")
    child = start("import resource\n" + sheds.replace("time.sleep(600)", then), note)
    wait_until(lambda: note.exists() and note.read_text())
    pid = int(note.read_text())
    wait_until(lambda: Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep"))
    child.wait(0.5)
    child.end()
    assert identify(pid) is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
@pytest.mark.parametrize("generations", [1, 2])
def test_a_script_that_kills_one_of_its_keepers_leaves_nothing(
    start: Callable[..., Child], tmp_path: Path, generations: int
) -> None:
    note = tmp_path / "pid"
    sheds = LEAVES_EVERYTHING.replace("        open", "        resource.prlimit(0, 10, (-1, -1))\n        open")
    kills = f"""
while not (os.path.exists(sys.argv[1]) and open(sys.argv[1]).read()):
    time.sleep(0.02)
victim = os.getppid()
if {generations} == 2:
    victim = int(open(f"/proc/{{victim}}/stat").read().rpartition(") ")[2].split()[1])
os.kill(victim, 9)
time.sleep(600)
"""
    child = start("import resource\n" + sheds.replace("time.sleep(600)", "") + kills, note)
    assert child.wait(30).exit_code == -signal.SIGKILL
    child.end()
    assert identify(int(note.read_text())) is None
    assert not find_processes(child.mark)


STOPS_ITS_KEEPERS = """
import os, signal, sys
inner = os.getppid()
outer = int(open(f"/proc/{inner}/stat").read().rpartition(") ")[2].split()[1])
open(sys.argv[1], "w").write(f"{inner} {outer}")
for keeper in (outer, inner):
    os.kill(keeper, signal.SIGSTOP)
"""
TRACES_ITS_KEEPER = """
import ctypes, os, sys, time
trace = ctypes.CDLL(None).ptrace
trace.argtypes = [ctypes.c_long] * 4
if os.fork() == 0:
    os.setsid()
    keeper = int(open(f"/proc/{os.getppid()}/stat").read().rpartition(") ")[2].split()[1])
    if trace(16, keeper, 0, 0):
        keeper = os.getpid()  # may not be traced here
    open(sys.argv[1], "w").write(f"{keeper} {os.getpid()}")
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl(2)")
@pytest.mark.parametrize("code", [STOPS_ITS_KEEPERS, TRACES_ITS_KEEPER], ids=["stopped", "traced"])
def test_keepers_that_a_script_stopped_keep_nobody_waiting_and_end_as_well(
    start: Callable[..., Child], tmp_path: Path, code: str
) -> None:
    note = tmp_path / "pids"
    child = start(code, note)
    wait_until(lambda: note.exists() and note.read_text())
    stopped = [identify(int(pid)) for pid in note.read_text().split()]
    child.wait(0.2)
    began = time.monotonic()
    child.end(grace_s=0.1)
    assert time.monotonic() - began < 5 * busyness()
    assert not [one for one in stopped if one and is_running(one)]


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    for words, cwd in ((["no-such-program"], "/"), (["true"], str(tmp_path / "nowhere"))):
        with pytest.raises(FileNotFoundError) as found:
            Child(words, env=dict(os.environ), log=tmp_path / "log", cwd=cwd)
        assert found.value.filename == (words[0] if cwd == "/" else cwd)


def test_a_child_begins_as_any_other_program_would(start: Callable[..., Child], tmp_path: Path) -> None:
    """Its signals, descriptors, session and folder."""
    code = (
        "import json, os, signal\n"
        "heeded = [number for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN]\n"
        "opened = [int(name) for name in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{name}')]\n"
        "print(json.dumps([sorted(map(int, heeded)), sorted(opened), os.getsid(0) == os.getpid(), os.getcwd()]))"
    )
    plain = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
    )
    assert start(code).wait(30).exit_code == 0
    assert json.loads((tmp_path / "log").read_text()) == json.loads(plain.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_left_its_tree_and_wiped_all_marks_is_ended_when_it_was_seen_before(
    start: Callable[..., Child], tmp_path: Path
) -> None:
    """As the samplers see it, that look every few seconds."""
    note = tmp_path / "pid"
    child = start(
        "import os, subprocess, sys, time\n"
        "gate = 'import os, resource, sys, time; time.sleep(1); resource.prlimit(0, 10, (-1, -1));"
        ' os.execve("/bin/sleep", ["sleep", "600"], {})\'\n'
        "leaver = subprocess.Popen([sys.executable, '-c', gate], start_new_session=True)\n"
        "open(sys.argv[1], 'w').write(str(leaver.pid))\n"
        "time.sleep(600)",
        note,
    )
    wait_until(lambda: note.exists() and note.read_text())
    pid = int(note.read_text())
    wait_until(lambda: pid in {process.pid for process in child.processes()})
    wait_until(lambda: b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()[:6])
    assert child.process
    os.kill(child.process.pid, signal.SIGKILL)  # its parent dies, and another one takes it in
    child.wait(30)
    assert identify(pid)
    child.end()
    assert identify(pid) is None


def test_what_a_script_leaves_behind_is_asked_to_end_first(start: Callable[..., Child], tmp_path: Path) -> None:
    told, ready = tmp_path / "told", tmp_path / "ready"
    heeding = (
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path(sys.argv[1]).touch(), sys.exit()))\n"
        "pathlib.Path(sys.argv[2]).touch()\n"
        "time.sleep(600)"
    )
    child = start(
        "import os, subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', *sys.argv[1:]], start_new_session=True)\n"
        "while not os.path.exists(sys.argv[3]): time.sleep(0.02)",
        heeding,
        told,
        ready,
    )
    assert child.wait(30).exit_code == 0
    child.end()
    assert told.exists()
    assert not find_processes(child.mark)


@pytest.fixture
def shared_file() -> Iterator[Callable[[], Path]]:
    made: list[Path] = []

    def name() -> Path:
        made.append(Path(f"/dev/shm/curator-bench-test-{os.getpid()}-{len(made)}"))
        return made[-1]

    yield name
    for path in made:
        path.unlink(missing_ok=True)


MAPS = """
import mmap, sys, time
held = []
for path in sys.argv[1:]:
    file = open(path, "a+b")
    file.truncate(4096)
    held.append(mmap.mmap(file.fileno(), 4096))
    file.close()
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="Linux keeps shared memory there")
def test_shared_memory_of_what_was_killed_goes_with_it_but_not_what_was_there_before(
    start: Callable[..., Child], shared_file: Callable[[], Path], tmp_path: Path
) -> None:
    own, before, shared = shared_file(), shared_file(), shared_file()
    before.write_bytes(b"a dataset in memory")
    child = start(MAPS, own, before, shared)
    wait_until(lambda: (tmp_path / "log").read_bytes())
    with shared.open("rb") as file, mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ):
        child.end()
    assert (own.exists(), before.exists(), shared.exists()) == (False, True, True)


def test_a_second_ctrl_c_ends_at_once_what_a_first_asked_to_end(
    start: Callable[..., Child], tmp_path: Path, shared_file: Callable[[], Path]
) -> None:
    held = shared_file()
    child = start(f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{MAPS}", held)
    wait_until(lambda: (tmp_path / "log").read_bytes())
    began = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            child.end()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert 0.2 < time.monotonic() - began < 4 * busyness()
    assert not find_processes(child.mark)
    assert not held.exists()


def test_a_child_can_hold_a_descriptor_of_ours(start: Callable[..., Child]) -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    child = start("import time; time.sleep(600)", keep_open=[write_end])
    os.close(write_end)
    with pytest.raises(BlockingIOError):
        os.read(read_end, 1)
    child.end()
    assert os.read(read_end, 1) == b""
    os.close(read_end)


def test_a_run_to_the_end_leaves_nothing(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    words = [sys.executable, "-c", LEAVES_EVERYTHING.replace(", {})", ", os.environ)"), str(note)]
    ended = run_child(words, env=dict(os.environ), log=tmp_path / "log", cwd="/", timeout_s=1.5 * busyness())
    assert ended.exit_code is None
    assert identify(int(note.read_text())) is None


@pytest.mark.parametrize("env", [{"A=B": "1"}, {"A": "\0"}])
def test_an_environment_no_process_can_have_is_told_as_such(tmp_path: Path, env: dict[str, str]) -> None:
    with pytest.raises(BenchError, match="cannot be started"):
        Child(["true"], env=env, log=tmp_path / "log", cwd="/")
