"""Stages of a real cluster: times that are known beforehand are found, and what Ray has lost is missing, not zero."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from curator_bench.cluster.environment import without_ray
from curator_bench.cluster.model import Cluster
from curator_bench.measure.processes import busyness
from curator_bench.measure.ray_tasks import RayTaskPrograms, RayTaskSampler
from curator_bench.measure.ray_tasks_program import StageSum, Window
from curator_bench.measure.schedule import Schedule
from curator_bench.values import Stage, StageKind

Measure = Callable[..., dict[tuple[str, str], Stage]]
SAME = 0.99
"""What two clocks make of the same seconds."""
DRIVER = """
import os, sys, time
import ray
ray.init(log_to_driver=False, logging_level="ERROR")

def wait_until_told(**counts):
    '''Ray's processes report once a second, those of a busy machine later.'''
    while any(sum(event["cat"] == f"task::{name}" for event in ray.timeline()) < counts[name] for name in counts):
        pass

class timed:
    '''Notes how long a block really took, whatever else the machine does.'''

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.began = time.perf_counter()

    def __exit__(self, *raised):
        with open(TRUTH, "a") as file:
            file.write(f"{self.name} {time.perf_counter() - self.began}\\n")
"""
DATA = """
import ray.data
ray.data.DataContext.get_current().enable_progress_bars = False
"""


@pytest.fixture
def samplers() -> list[RayTaskSampler]:
    """The samplers of a test, for their metrics."""
    return []


@pytest.fixture(scope="module")
def programs() -> Iterator[RayTaskPrograms]:
    found = RayTaskPrograms(Schedule())
    yield found
    found.end()


@pytest.fixture
def measure(programs: RayTaskPrograms, cluster: Cluster, tmp_path: Path, samplers: list[RayTaskSampler]) -> Measure:
    """Run a script on the cluster as an entry's script runs; gives its stages by kind and name."""

    def run(code: str, **variables: str) -> dict[tuple[str, str], Stage]:
        env = {**without_ray(os.environ), **cluster.env}
        sampler = RayTaskSampler(cluster.python, env, session_dir=cluster.session_dir, programs=programs, is_new=True)
        samplers.append(sampler)
        script = tmp_path / "script.py"
        script.write_text(f"TRUTH = {str(tmp_path / 'truth')!r}\n" + DRIVER + textwrap.dedent(code))
        sampler.start()
        subprocess.run(
            [sys.executable, script], env={**env, **variables}, cwd=tmp_path, check=True, timeout=120 * busyness()
        )
        sampler.stop()
        return {(str(stage.kind), stage.name): stage for stage in sampler.stages()}

    return run


@pytest.fixture
def truth(tmp_path: Path) -> Callable[..., float]:
    """The seconds that blocks of these names really took."""

    def total(*names: str) -> float:
        lines = [line.split() for line in (tmp_path / "truth").read_text().splitlines()]
        return sum(float(seconds) for name, seconds in lines if name in names)

    return total


def is_little_more(seconds: float, of_functions_s: float) -> bool:
    """A task takes a little longer than its function: by a tenth at most, and by more where others want the cores."""
    return SAME * of_functions_s <= seconds <= (1 + 0.1 * busyness()) * of_functions_s


@pytest.mark.slow
def test_tasks_and_methods_of_actors_have_the_time_they_took(
    measure: Measure, samplers: list[RayTaskSampler], truth: Callable[..., float]
) -> None:
    found = measure("""
    @ray.remote
    def begin():
        pass

    @ray.remote
    def nap():
        with timed("nap"):
            time.sleep(0.2)

    @ray.remote
    def burn():
        began = time.process_time()
        while time.process_time() - began < 0.3:
            pass

    @ray.remote
    class Worker:
        def work(self):
            with timed("work"):
                time.sleep(0.1)

    ray.get([begin.remote() for _ in range(2)])
    with timed("all_naps"):
        ray.get([nap.remote() for _ in range(6)])
    ray.get([burn.remote() for _ in range(2)])
    worker = Worker.remote()
    ray.get(worker.__ray_ready__.remote())
    with timed("all_work"):
        ray.get([worker.work.remote() for _ in range(5)])
    wait_until_told(nap=6, burn=2, **{"Worker.work": 5})
    """)
    nap, work = found["task", "nap"], found["actor", "Worker.work"]
    assert (nap.count, work.count, found["task", "burn"].count) == (6, 5, 2)
    assert SAME * truth("nap") <= (nap.executing_s or 0) <= 2 * truth("all_naps")  # two at a time
    assert SAME * truth("work") <= (work.executing_s or 0) <= truth("all_work")
    assert (found["task", "burn"].executing_s or 0) >= 0.6
    assert nap.active_s is not None
    assert truth("nap") / 2 - 0.01 < nap.active_s <= (nap.executing_s or 0)  # two at a time
    assert nap.started_s is not None
    assert work.started_s is not None
    assert 0 < nap.started_s < work.started_s
    assert nap.waits_missing == 0
    assert (nap.waiting_s or 0) > 0.2 + 0.4  # the last four of six waited for one or two others
    assert (nap.bytes_in, nap.backpressure_s) == (None, None)
    metrics = samplers[-1].metrics()
    assert (metrics["ray_retries"], metrics["ray_failures"], metrics["restored_bytes"]) == (0, 0, 0)


@pytest.mark.slow
def test_tasks_that_their_driver_did_not_tell_of_are_unknown_and_not_zero(
    measure: Measure, samplers: list[RayTaskSampler]
) -> None:
    never = {"RAY_task_events_report_interval_ms": "600000"}
    found = measure(
        """
        @ray.remote
        def nap():
            time.sleep(0.05)

        ray.get([nap.remote() for _ in range(30)])
        time.sleep(2)  # the workers report
        os._exit(0)  # and the driver has not
        """,
        **never,
    )
    assert all(stage.waits_missing == stage.count for stage in found.values())
    assert all(stage.waiting_s is None for stage in found.values())
    assert not {"ray_tasks", "compute_time_s"} & set(samplers[-1].metrics())


@pytest.mark.slow
def test_a_task_whose_worker_was_killed_is_a_failure_and_a_retry(
    measure: Measure, samplers: list[RayTaskSampler], tmp_path: Path
) -> None:
    found = measure(f"""
    @ray.remote(max_retries=3)
    def fragile():
        if not os.path.exists({str(tmp_path / "died")!r}):
            open({str(tmp_path / "died")!r}, "w").close()
            time.sleep(0.3)
            os._exit(1)
        time.sleep(0.5)

    @ray.remote(max_retries=0)
    def wrong():
        raise ValueError

    ray.get(fragile.remote())
    try:
        ray.get(wrong.remote())
    except ValueError:
        pass
    wait_until_told(fragile=1, wrong=1)
    """)
    fragile = found["task", "fragile"]
    assert (fragile.count, fragile.retries, fragile.failures) == (2, 1, 1)
    assert (fragile.executing_s or 0) >= 0.5  # and what the killed one took, if its worker told when it began
    assert fragile.times_missing in (0, 1)
    assert found["task", "wrong"].failures == 1
    metrics = samplers[-1].metrics()
    assert (metrics["ray_retries"], metrics["ray_failures"]) == (1, 2)


@pytest.mark.slow
def test_operators_of_ray_data_have_their_true_time_and_fused_ones_their_parts(
    measure: Measure, truth: Callable[..., float]
) -> None:
    found = measure(
        DATA
        + textwrap.dedent("""
        def one(batch):
            with timed("one"):
                time.sleep(0.05)
            return batch

        def two(batch):
            with timed("two"):
                time.sleep(0.1)
            return batch

        class Three:
            def __call__(self, batch):
                with timed("three"):
                    time.sleep(0.1)
                return batch

        data = ray.data.range(200, override_num_blocks=10)
        data = data.map_batches(one, batch_size=None).map_batches(two, batch_size=None)
        data = data.map_batches(Three, batch_size=None, compute=ray.data.ActorPoolStrategy(size=1), num_cpus=0.5)
        for _ in data.iter_batches(batch_size=None):
            pass
        """)
    )
    operators = {name: stage for (kind, name), stage in found.items() if kind == StageKind.OPERATOR}
    fused = next(stage for stage in operators.values() if len(stage.parts) > 1)
    assert [part for part in fused.parts if part.startswith("MapBatches")][:2] == ["MapBatches(one)", "MapBatches(two)"]
    assert is_little_more(sum(stage.executing_s or 0.0 for stage in operators.values()), truth("one", "two", "three"))
    assert all(stage.count == 10 for stage in operators.values())
    assert all(stage.bytes_out == 200 * 8 for stage in operators.values())
    assert not any("_StatsActor" in name for _, name in found)


@pytest.mark.slow
def test_an_operator_that_waits_for_a_slower_one_has_not_worked_meanwhile(
    measure: Measure, truth: Callable[..., float]
) -> None:
    """Its tasks hand out many blocks, and are held back between them."""
    found = measure(
        DATA
        + textwrap.dedent("""
        import numpy as np

        context = ray.data.DataContext.get_current()
        context.target_max_block_size = 1_000_000
        context._max_num_blocks_in_streaming_gen_buffer = 1

        def fast(batch):
            with timed("fast"):
                time.sleep(0.05)
            return {"data": np.zeros((1, 1_500_000), dtype=np.uint8)}

        class Slow:
            def __call__(self, batch):
                with timed("slow"):
                    time.sleep(0.4)
                return {"n": np.zeros(1)}

        data = ray.data.range(16, override_num_blocks=1).map_batches(fast, batch_size=1, num_cpus=1)
        data = data.map_batches(Slow, batch_size=1, compute=ray.data.ActorPoolStrategy(size=1), num_cpus=0.5)
        assert data.count() == 16
        """)
    )
    operators = {name: stage for (kind, name), stage in found.items() if kind == StageKind.OPERATOR}
    fast = next(stage for name, stage in operators.items() if name.endswith("MapBatches(fast)"))
    slow = next(stage for name, stage in operators.items() if "MapBatches(Slow)" in name)
    assert is_little_more(slow.executing_s or 0, truth("slow"))
    # With the making of blocks.
    assert SAME * truth("fast") <= (fast.executing_s or 0) < truth("fast") + truth("slow") / 4
    assert (fast.active_s or 0) > 2 * (fast.executing_s or 0)  # the task was there, and waited


def told(began: int, ended: int, **states: int) -> Any:
    """A task of Ray's events, in seconds."""
    numbers = {"submitted": 1, "at_worker": 5, "running": 8, "finished": 11, "failed": 12}
    stamps = {numbers[name]: moment * 10**9 for name, moment in states.items()}
    execute = SimpleNamespace(event_name="task:execute", start_time=began * 10**9, end_time=ended * 10**9)
    return SimpleNamespace(
        attempt_number=0,
        state_updates=SimpleNamespace(state_ts_ns=stamps),
        profile_events=SimpleNamespace(events=[execute] if ended else []),
    )


def test_what_ray_has_lost_of_a_task_is_missing_and_counted() -> None:
    window, lost, whole = Window(0, 100 * 10**9), StageSum(("task", "one")), StageSum(("task", "one"))
    lost.add(told(3, 5, running=3), window)
    lost.add(told(0, 0, running=3), window)
    found = lost.figures(window)
    assert (found["count"], found["executing"], found["times_missing"]) == (2, 2.0, 1)
    assert (found["waiting"], found["waits_missing"]) == (None, 2)
    whole.add(told(3, 5, submitted=1, running=3), window)
    whole.add(told(4, 7, submitted=2, running=4), window)
    whole.add(told(0, 0, submitted=2, running=8, finished=9), window)  # the times of its states are left
    found = whole.figures(window)
    assert (found["executing"], found["active"], found["waiting"]) == (6.0, 5.0, 10.0)
    assert (found["times_missing"], found["waits_missing"]) == (0, 0)


def test_a_task_that_no_worker_ever_had_was_not_executed() -> None:
    window, stage = Window(0, 100 * 10**9), StageSum(("task", "one"))
    stage.add(told(0, 0, submitted=1, failed=2), window)
    stage.add(told(0, 0, submitted=1, at_worker=2, failed=3), window)
    assert (stage.count, stage.failures, stage.figures(window)["executing"]) == (1, 2, None)


@pytest.mark.slow
def test_a_script_that_uses_no_ray_has_no_stages(measure: Measure) -> None:
    assert measure("time.sleep(0.1)") == {}
