"""From two recordings of py-spy to a profile: names that two commits share, and waiting told from computing."""

from __future__ import annotations

import numpy as np
import pytest

from curator_bench.execution.profilers.frames import frame_of
from curator_bench.execution.profilers.py_spy_stacks import pace_of, stacks_of_recordings
from curator_bench.values import WAITING


@pytest.mark.parametrize(
    ("function", "file", "name"),
    [
        ("work", "script.py", "script:work"),
        ("Table.sort", "pkg/sub/mod.py", "pkg.sub.mod:Table.sort"),
        ("<module>", "pkg/__init__.py", "pkg:<module>"),
        ("_find_and_load", "<frozen importlib._bootstrap>", "importlib._bootstrap:_find_and_load"),
        ("f", "<string>", "<string>:f"),
        ("clock_nanosleep", "/usr/lib/x86_64-linux-gnu/libc.so.6", "libc.so:clock_nanosleep"),
        ("0x7f3a9c01", "/usr/lib/x86_64-linux-gnu/libc.so.6", "libc.so"),
        ("dgemm", "/v/numpy.libs/libscipy_openblas64_-99b71e71.so", "libscipy_openblas64_.so:dgemm"),
        ("add", "/v/_umath.cpython-311-x86_64-linux-gnu.so", "_umath.so:add"),
        ("encoder_call", "/build/Modules/_json.c", "_json.c:encoder_call"),
        ("0x55d0", "?", "?"),
    ],
)
def test_a_frame_is_named_by_module_and_function(function: str, file: str, name: str) -> None:
    assert frame_of(function, file) == name


def record(frames: str, count: int) -> str:
    return f'process 1:"python a.py";{frames} {count}\n'


def test_pids_lines_and_command_lines_are_left_out_whatever_they_hold() -> None:
    nasty = 'python -c import x; y = "a";b (c.py:3) 12\nprint(1) 7\n"'
    computing = (
        f'process 1:"{nasty}";<module> (a.py:3);work (a.py:9) 5\n'
        f'process 1:"{nasty}";process 22:"{nasty}";<module> (a.py:3);work (a.py:10) 2\n'
    )
    assert stacks_of_recordings(computing, "") == {("a:<module>", "a:work"): 7}


def test_native_code_is_named_by_library_and_what_started_python_is_left_out() -> None:
    computing = (
        "0x7f01 (/lib/libc.so.6);_start (/bin/python3.11);<module> (a.py:1);0x7f11 (/v/libfast.so.2);"
        "0x7f12 (/v/libfast.so.2);kernel (/v/libfast.so.2) 4\n"
    )
    assert stacks_of_recordings(computing, "") == {("a:<module>", "libfast.so", "libfast.so:kernel"): 4}


def test_rays_own_processes_and_idle_workers_are_left_out() -> None:
    raylet = 'process 7:"/ray/raylet --agent=ray/dashboard/agent.py; --x="y";z"'
    work = "<module> (ray/_private/workers/default_worker.py:300);Worker.main_loop (ray/_private/worker.py:950)"
    own = "Thread.run (threading.py:9);Worker.print_logs (ray/_private/worker.py:1)"
    everything = (
        f'{raylet};process 6:"ray::RuntimeEnvAgent";<module> (main.py:1) 900\n'
        f'{raylet};process 9:"ray::task";{own} 900\n'
        f'{raylet};process 8:"python -u /ray/dashboard/agent.py";<module> (agent.py:1) 900\n'
        f'{raylet};process 9:"ray::IDLE";{work} 900\n'
        f'{raylet};process 9:"ray::task";{work};task (job.py:7) 50\n'
    )
    names = "ray._private.workers.default_worker:<module>", "ray._private.worker:Worker.main_loop", "job:task"
    assert stacks_of_recordings("", everything) == {(*names, WAITING): 50}


def recordings(computing: float, waiting: float, seed: int, functions: int = 200) -> tuple[str, str]:
    """Two recordings of a program, each a random sample: with so many samples of computing and waiting expected.

    The computing is spread over many stacks; the waiting is at one line. One function does both at different lines.
    """
    chance = np.random.default_rng(seed)

    def recording(with_waiting: bool) -> str:
        lines = [f"main (a.py:1);f{number} (a.py:{number});both (a.py:900)" for number in range(functions)]
        counts = [(line, chance.poisson(computing / functions)) for line in lines]
        if with_waiting:
            counts.append(("main (a.py:1);both (a.py:901)", chance.poisson(waiting)))
        return "".join(record(line, count) for line, count in counts if count)

    return recording(False), recording(True)


def test_waiting_is_told_from_computing_though_both_recordings_are_random() -> None:
    for seed in range(20):
        found = stacks_of_recordings(*recordings(1000.0, 300.0, seed))
        computed = sum(count for stack, count in found.items() if stack[-1] != WAITING)
        waited = {stack: count for stack, count in found.items() if stack[-1] == WAITING}
        assert set(waited) == {("a:main", "a:both", WAITING)}
        assert computed == pytest.approx(1000, rel=0.2)
        assert sum(waited.values()) == pytest.approx(300, rel=0.35)


def test_a_thread_without_frames_is_left_out() -> None:
    assert stacks_of_recordings('process 1:"python a.py" 7\n' + record("main (a.py:1)", 3), "") == {("a:main",): 3}


def test_a_recording_that_was_late_has_fewer_samples_of_the_same_code() -> None:
    """On a busy machine, or with many processes, py-spy cannot keep up."""
    line = "main (a.py:1);work (a.py:5)"
    pace = pace_of(20.0, "1.20s behind in sampling, results\n10.00s behind in sampling, results\n", "fine")
    assert stacks_of_recordings(record(line, 1000), record(line, 2000), pace) == {("a:main", "a:work"): 2000}
    unknown = pace_of(4.0, "", "")
    assert stacks_of_recordings(record(line, 320), record(line, 400), unknown) == {("a:main", "a:work"): 320}


def test_a_line_that_computes_and_waits_is_shared_between_both() -> None:
    line = "main (a.py:1);read (a.py:5)"
    assert stacks_of_recordings(record(line, 400), record(line, 1000)) == {
        ("a:main", "a:read"): 400,
        ("a:main", "a:read", WAITING): 600,
    }
