"""tasks.pkl: its numbers are NeMo Curator's, and whatever a pickle does costs a warning and leaves nothing behind."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import curator_bench.execution
from curator_bench.execution.task_metrics import Limits, TaskMetrics, read_task_metrics

STAGES_MODULE = """
class Measurement:
    def __init__(self, stage_name, **numbers):
        self.stage_name = stage_name
        self.numbers = numbers
    def items(self):
        return list(self.numbers.items())

class Task:
    def __init__(self, *measurements):
        self.data = "anything"
        self._stage_perf = list(measurements)
"""


class Hostile:
    """Runs code in whoever opens its pickle."""

    def __init__(self, code: str) -> None:
        self.code = textwrap.dedent(code)

    def __reduce__(self) -> Any:
        return exec, (self.code, {})


# All by which the processes of a run are known but for the keeper: tree, session, a limit, the environment.
SHEDS_ALL = (
    "os.setsid(); os.fork() and os._exit(0); import resource; resource.prlimit(0, 10, (-1, -1));"
    " open(PID + '.new', 'w').write(str(os.getpid())); os.rename(PID + '.new', PID);"
    " os.execve('/bin/sleep', ['sleep', '1000'], {})"
)


def measurement(stage: str = "read", **numbers: Any) -> dict[str, Any]:
    return {"stage_name": stage, **numbers}


def task(*measurements: Any) -> dict[str, Any]:
    return {"_stage_perf": list(measurements)}


def read(directory: Path, content: Any, *, limits: Limits | None = None, **env: str) -> TaskMetrics:
    path = directory / "tasks.pkl"
    path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content))
    return read_task_metrics(path, python=sys.executable, env={**os.environ, **env}, limits=limits or Limits())


def pickled_by(directory: Path, program: str) -> bytes:
    """What a script with this text pickles; its classes belong to __main__ or to modules in `directory`."""
    script = directory / "script.py"
    script.write_text(
        "import pickle, sys\n" + textwrap.dedent(program) + "\nsys.stdout.buffer.write(pickle.dumps(tasks))"
    )
    return subprocess.run([sys.executable, str(script)], check=True, capture_output=True).stdout


def is_alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)


def test_sum_mean_and_deviation_are_those_of_numpy(tmp_path: Path) -> None:
    times = [0.1, 12.75, 3e-9, 40000.5, 7.0]
    found = read(tmp_path, [task(measurement(process_time=value, num_items_processed=3)) for value in times])
    assert found.warnings == ()
    assert dict(found.metrics) == pytest.approx(
        {
            "task_read_process_time_sum": float(np.sum(times)),
            "task_read_process_time_mean": float(np.mean(times)),
            "task_read_process_time_std": float(np.std(times)),
            "task_read_num_items_processed_sum": 15.0,
            "task_read_num_items_processed_mean": 3.0,
            "task_read_num_items_processed_std": 0.0,
        },
        rel=1e-12,
    )


def test_a_mapping_puts_the_name_of_the_pipeline_into_the_metric(tmp_path: Path) -> None:
    content = {"first": [task(measurement(a=1))], "second": task(measurement(a=2)), "none": None, "empty": []}
    found = read(tmp_path, content)
    sums = {name: value for name, value in found.metrics.items() if name.endswith("_sum")}
    assert sums == {"task_first_read_a_sum": 1.0, "task_second_read_a_sum": 2.0}
    assert read(tmp_path, {"pipeline_tasks": content, "workflow_name": "w"}).metrics == found.metrics


def test_a_measurement_shared_by_several_tasks_counts_once(tmp_path: Path) -> None:
    shared = measurement(a=5)
    found = read(tmp_path, [task(shared), task(shared, measurement(a=7))])
    assert found.metrics["task_read_a_sum"] == 12.0


def test_custom_metrics_are_numbers_and_labels_are_not(tmp_path: Path) -> None:
    found = read(tmp_path, [task(measurement(custom_metrics={"io": 2}, gpu_id="1", node_id=3, note="x", _private=4))])
    assert set(found.metrics) == {"task_read_custom.io_sum", "task_read_custom.io_mean", "task_read_custom.io_std"}
    assert found.warnings == ()


def test_values_that_are_not_numbers_are_named_and_left_out(tmp_path: Path) -> None:
    found = read(tmp_path, [task(measurement(a=[1, 2], b=float("nan"), c=float("inf")))])
    assert np.isnan(found.metrics["task_read_b_sum"])
    assert found.metrics["task_read_c_mean"] == np.inf
    assert "task_read_a_sum" not in found.metrics
    assert found.warnings == ("tasks.pkl has 1 measurements that are not numbers: read.a",)


def test_classes_that_can_be_imported_are_asked_for_their_items(tmp_path: Path) -> None:
    (tmp_path / "stages.py").write_text(STAGES_MODULE)
    content = pickled_by(tmp_path, "import stages\ntasks = [stages.Task(stages.Measurement('read', speed=4))]")
    found = read(tmp_path, content, PYTHONPATH=str(tmp_path))
    assert (found.metrics["task_read_speed_sum"], found.warnings) == (4.0, ())


def test_numbers_of_classes_defined_in_the_script_are_read_without_them(tmp_path: Path) -> None:
    content = pickled_by(
        tmp_path,
        """
        from dataclasses import dataclass, field
        import collections, enum
        Point = collections.namedtuple("Point", "x y")
        class Colour(enum.Enum):
            RED = 1
        @dataclass(slots=True)
        class Measurement:
            stage_name: str
            process_time: float
            custom_metrics: dict = field(default_factory=dict)
        class Task:
            pass
        class TaskList(list):
            pass
        class Run(dict):
            pass
        task = Task()
        task._stage_perf = [Measurement("read", 2.5, {"io": 1})]
        task.data = [Point(1, 2), Colour.RED]
        tasks = Run(one=TaskList([task]))
        """,
    )
    found = read(tmp_path, content)
    assert found.metrics["task_one_read_process_time_sum"] == 2.5
    assert found.metrics["task_one_read_custom.io_sum"] == 1.0
    (warning,) = found.warnings
    assert warning.startswith("tasks.pkl was read without classes that cannot be imported: ")
    assert "__main__.Run (defined in the script itself)" in warning


def test_numbers_of_a_class_that_fails_to_load_are_read_without_it(tmp_path: Path) -> None:
    (tmp_path / "frames.py").write_text(
        "class Frame:\n    def __setstate__(self, state):\n        raise OSError('no GPU')"
    )
    program = "import frames\nframe = frames.Frame()\nframe.a = 1\n"
    content = pickled_by(tmp_path, program + "tasks = [{'_stage_perf': [{'stage_name': 's', 'a': 1}], 'data': frame}]")
    found = read(tmp_path, content, PYTHONPATH=str(tmp_path))
    assert found.metrics["task_s_a_sum"] == 1.0
    assert found.warnings == ("tasks.pkl was read without its classes: OSError: no GPU",)


def test_where_nemo_curator_can_be_imported_its_own_aggregation_is_called(tmp_path: Path) -> None:
    package = tmp_path / "nemo_curator" / "tasks"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "utils.py").write_text(
        "class TaskPerfUtils:\n"
        "    @staticmethod\n"
        "    def aggregate_task_metrics(tasks, prefix=None):\n"
        "        return {f'{prefix}_from_nemo_curator': len(tasks)}\n"
    )
    (tmp_path / "stages.py").write_text(STAGES_MODULE)
    content = pickled_by(tmp_path, "import stages\ntasks = [stages.Task(stages.Measurement('read', speed=4))]")
    found = read(tmp_path, content, PYTHONPATH=str(tmp_path))
    assert (dict(found.metrics), found.warnings) == ({"task_from_nemo_curator": 1.0}, ())
    (package / "utils.py").write_text("class TaskPerfUtils: pass")
    found = read(tmp_path, content, PYTHONPATH=str(tmp_path))
    assert found.metrics["task_read_speed_sum"] == 4.0
    assert "without NeMo Curator's TaskPerfUtils: AttributeError" in found.warnings[0]


def test_numbers_equal_those_of_a_real_nemo_curator(tmp_path: Path) -> None:
    tasks_module = pytest.importorskip("nemo_curator.tasks")
    utilities = pytest.importorskip("nemo_curator.tasks.utils")
    performance = pytest.importorskip("nemo_curator.utils.performance_utils")
    measured = [performance.StagePerfStats("read", value, custom_metrics={"io": value}) for value in (0.1, 2.5, 7)]
    tasks = [tasks_module.FileGroupTask(dataset_name="d", data=["f"], _stage_perf=[item]) for item in measured]
    expected = utilities.TaskPerfUtils.aggregate_task_metrics(tasks, prefix="task")
    assert dict(read(tmp_path, tasks).metrics) == expected
    as_dictionaries = [task({"stage_name": item.stage_name, **dict(item.items())}) for item in measured]
    assert dict(read(tmp_path, as_dictionaries).metrics) == pytest.approx(expected, rel=1e-12)


class Collecting:
    """Becomes true where it is loaded while Python collects garbage."""

    def __reduce__(self) -> Any:
        return gc.isenabled, ()


def test_loading_does_not_stop_to_collect_garbage(tmp_path: Path) -> None:
    """It took four times as long for ten thousand tasks, and the numbers of a nightly entry were lost."""
    found = read(tmp_path, [task(measurement(collecting=Collecting()))])
    assert found.metrics["task_read_collecting_sum"] == 0


def test_a_large_file_gets_more_time_but_not_for_ever() -> None:
    limits = Limits()
    assert limits.of_file(0).time_s == limits.time_s
    assert limits.of_file(300 * 2**20).time_s == 105
    assert limits.of_file(2**40).time_s == limits.longest_s
    assert Limits(time_s=500).of_file(2**40).time_s == 500


def test_no_file_and_no_tasks_cost_no_warning(tmp_path: Path) -> None:
    assert read_task_metrics(tmp_path / "tasks.pkl", python="nowhere", env={}) == TaskMetrics()
    nothings: tuple[Any, ...] = (None, [], {}, {"one": []})
    for nothing in nothings:
        assert read(tmp_path, nothing) == TaskMetrics()


@pytest.mark.parametrize(
    ("content", "warning"),
    [
        (b"", "tasks.pkl cannot be read: EOFError: Ran out of input"),
        (b"not a pickle", "tasks.pkl cannot be read: UnpicklingError"),
        (pickle.dumps([task(measurement(a=1))])[:-9], "tasks.pkl cannot be read: "),
        (pickle.dumps(3), "tasks.pkl holds int, not a list of tasks or a mapping of names to such lists"),
        (pickle.dumps({"one": "text"}), "tasks.pkl holds str, not a list of tasks"),
        (pickle.dumps([1, 2, task(measurement())]), "tasks.pkl has 2 tasks without _stage_perf: int"),
    ],
    ids=["empty", "text", "torn", "a number", "a text by name", "numbers among tasks"],
)
def test_a_pickle_without_tasks_costs_a_warning(tmp_path: Path, content: bytes, warning: str) -> None:
    found = read(tmp_path, content)
    assert dict(found.metrics) == {}
    assert found.warnings[0].startswith(warning)
    assert len(found.warnings) == 1


@pytest.mark.parametrize(
    ("code", "warning"),
    [
        ("while True: pass", "was stopped after 1 s"),
        ("import time; time.sleep(1000)", "was stopped after 1 s"),
        ("import signal, time; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32)); time.sleep(99)", "was stopped"),
        ("import os; os._exit(0)", "answer is empty"),
        ("raise SystemExit(3)", "exit code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("import os; os.system('exit 7')", "has 1 tasks without _stage_perf: NoneType"),
        ("print('x' * 10_000_000, flush=True)", "has 1 tasks without _stage_perf: NoneType"),
        ("blob = bytearray(2**30)", "it needs more memory than allowed"),
        ("heap = []\nwhile True: heap.append(bytes(2**20))", "it needs more memory than allowed"),
        (
            "import os\nfor number in range(3, 64):\n    try: os.write(number, b'{')\n    except OSError: pass",
            "answer is not valid JSON",
        ),
    ],
)
def test_a_hostile_pickle_costs_a_warning(tmp_path: Path, code: str, warning: str) -> None:
    limits = Limits(time_s=1, memory_bytes=256 * 2**20)
    started = time.monotonic()
    found = read(tmp_path, [Hostile(code)], limits=limits)
    assert time.monotonic() - started < 20
    assert dict(found.metrics) == {}
    assert warning in found.warnings[0]


@pytest.mark.parametrize(
    ("hiding", "ending"),
    [
        ("pass", "pass"),
        ("os.setsid()", "os._exit(0)"),
        ("os.setsid(); os.fork() and os._exit(0)", "pass"),
        ("os.setsid(); os.fork() and os._exit(0)", "time.sleep(1000)"),
        (SHEDS_ALL, "pass"),
        (SHEDS_ALL, "os._exit(0)"),
        (SHEDS_ALL, "time.sleep(1000)"),
    ],
)
def test_nothing_a_pickle_started_is_left_behind(tmp_path: Path, hiding: str, ending: str) -> None:
    pid_file = tmp_path / "pid"
    code = f"""
    import os, signal, time
    if not os.fork():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        {hiding.replace("PID", repr(str(pid_file)))}
        with open({str(pid_file)!r} + ".new", "w") as file:
            file.write(str(os.getpid()))
        os.rename({str(pid_file)!r} + ".new", {str(pid_file)!r})
        time.sleep(1000)
    while not os.path.exists({str(pid_file)!r}):
        time.sleep(0.01)
    {ending}
    """
    started = time.monotonic()
    found = read(tmp_path, [Hostile(code)], limits=Limits(time_s=3))
    assert time.monotonic() - started < 20
    assert found.warnings
    wait_until_gone(int(pid_file.read_text()))


def test_a_pickle_is_not_opened_in_this_process(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    read(tmp_path, [Hostile(f"import os; open({str(pid_file)!r}, 'w').write(str(os.getpid()))")])
    assert int(pid_file.read_text()) != os.getpid()


def test_the_reader_ends_by_itself_when_nobody_watches_it(tmp_path: Path) -> None:
    """As after a SIGKILL of pytest: its own alarm ends a pickle that never does."""
    pickled = tmp_path / "tasks.pkl"
    pickled.write_bytes(pickle.dumps([Hostile("while True: pass")]))
    program = Path(curator_bench.execution.__path__[0]) / "task_reader_program.py"
    with pickled.open("rb") as tasks, (tmp_path / "answer").open("wb") as answer:
        numbers = map(str, (tasks.fileno(), answer.fileno(), 1, 2**32, 2**34, 2**20))
        command = [sys.executable, str(program), *numbers]
        assert subprocess.run(command, pass_fds=(tasks.fileno(), answer.fileno()), timeout=30).returncode == -14


def test_an_interpreter_that_cannot_be_started_costs_a_warning(tmp_path: Path) -> None:
    (tmp_path / "tasks.pkl").write_bytes(pickle.dumps([]))
    found = read_task_metrics(tmp_path / "tasks.pkl", python=str(tmp_path / "python"), env={})
    assert found.warnings == (f"tasks.pkl cannot be read with {tmp_path / 'python'}: No such file or directory",)


def test_an_answer_beyond_its_limit_costs_a_warning(tmp_path: Path) -> None:
    many = [task(measurement(f"stage{number}", a=1)) for number in range(2000)]
    found = read(tmp_path, many, limits=Limits(answer_bytes=10_000))
    assert dict(found.metrics) == {}
    assert "cannot be read" in found.warnings[0]


def test_a_pickle_that_forges_the_answer_cannot_flood_the_report(tmp_path: Path) -> None:
    code = """
        import json, os, sys
        answer = {"metrics": {"a": 1.5}, "warnings": ["x" * 100_000] * 100}
        os.write(int(sys.argv[2]), json.dumps(answer).encode())
        os._exit(0)
    """
    found = read(tmp_path, [Hostile(code)])
    assert found.metrics == {"a": 1.5}
    assert sum(map(len, found.warnings)) < 20_000


def test_the_reader_sees_no_cluster_and_the_rest_of_the_environment(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    code = f"import os; open({str(seen)!r}, 'w').write(os.environ['KEPT'] + str(os.environ.get('RAY_ADDRESS')))"
    read(tmp_path, [Hostile(code)], RAY_ADDRESS="127.0.0.1:1", KEPT="kept ")
    assert seen.read_text() == "kept None"


def test_no_module_beside_the_reader_hides_one_of_the_standard_library() -> None:
    """The reader's folder is on its path while it imports what it needs."""
    (folder,) = curator_bench.execution.__path__
    assert not {path.stem for path in Path(folder).iterdir()} & sys.stdlib_module_names
