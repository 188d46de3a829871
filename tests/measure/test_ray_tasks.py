"""What `measure.ray_tasks` promises: the times Ray's own events tell, of the window alone, and nothing invented."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from curator_bench.cluster.environment import without_ray
from curator_bench.cluster.model import Cluster
from curator_bench.measure import ray_tasks
from curator_bench.measure.processes import busyness
from curator_bench.measure.ray_tasks import RayTaskSampler
from curator_bench.measure.ray_tasks_program import View, Window, call, difference, length

if TYPE_CHECKING:
    from measure.conftest import RayClusters

Metrics = dict[str, float | int]
SLEEP_S = 0.2
RAY = Path(importlib.util.find_spec("ray").origin).parent  # type: ignore[union-attr,arg-type]
SAME = 0.99
"""What two clocks make of the same seconds."""


@pytest.fixture
def ray(cluster: Cluster) -> Iterator[Any]:
    with cluster.driver(log_to_driver=False) as found:
        yield found


def sampler_of(cluster: Cluster) -> RayTaskSampler:
    return RayTaskSampler(cluster.python, {**without_ray(os.environ), **cluster.env})


def measured(cluster: Cluster, work: Callable[[], object]) -> Metrics:
    sampler = sampler_of(cluster)
    sampler.start()
    work()
    sampler.stop()
    assert sampler.warnings() == ()
    return sampler.metrics()


def took(work: Callable[[], object]) -> float:
    """Return the seconds that work needs, whatever else the machine does."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def naps(ray: Any, count: int, seconds: float = SLEEP_S) -> list[Any]:
    """Start tasks that return the seconds they took."""

    def nap(seconds: float) -> float:
        began = time.monotonic()
        time.sleep(seconds)
        return time.monotonic() - began

    napping = ray.remote(nap)
    return [napping.remote(seconds) for _ in range(count)]


class Block:
    """What a test does in a window: the seconds its tasks took by their own clock, and the block itself."""

    def __init__(self, ray: Any, tasks: Callable[[], list[Any]]) -> None:
        self.of_tasks_s = self.took_s = 0.0
        self._ray, self._tasks = ray, tasks

    def __call__(self) -> None:
        def get() -> None:
            self.of_tasks_s = sum(self._ray.get(self._tasks()))

        self.took_s = took(get)


def test_the_time_of_all_tasks_is_summed(cluster: Cluster, ray: Any) -> None:
    ray.get(naps(ray, 2, 0.0))  # there are workers now, and they know the function
    block = Block(ray, lambda: naps(ray, 8))
    metrics = measured(cluster, block)
    assert metrics["ray_tasks"] == 8
    assert SAME * block.of_tasks_s <= metrics["compute_time_s"] <= 2 * block.took_s  # two at a time
    assert metrics["transfer_time_s"] < metrics["compute_time_s"] / 8


def test_methods_of_actors_count_as_tasks(cluster: Cluster, ray: Any) -> None:
    class Napper:
        def nap(self, seconds: float) -> float:
            began = time.monotonic()
            time.sleep(seconds)
            return time.monotonic() - began

    napper = ray.remote(Napper).remote()
    ray.get(napper.nap.remote(0.0))
    block = Block(ray, lambda: [napper.nap.remote(SLEEP_S) for _ in range(3)])
    metrics = measured(cluster, block)
    assert metrics["ray_tasks"] == 3
    assert SAME * block.of_tasks_s <= metrics["compute_time_s"] <= block.took_s  # one at a time


def test_what_lies_before_and_after_the_window_does_not_count(cluster: Cluster, ray: Any) -> None:
    ray.get(naps(ray, 4))
    sampler = sampler_of(cluster)
    sampler.start()
    block = Block(ray, lambda: naps(ray, 2))
    block()
    later = naps(ray, 2, 2 * SLEEP_S)  # they are executed while the sampler still waits for the events
    sampler.stop()
    ray.get(later)
    assert SAME * block.of_tasks_s <= sampler.metrics()["compute_time_s"] <= 2 * block.took_s


def test_of_a_task_that_began_before_the_window_only_the_part_in_it_counts(
    cluster: Cluster, ray: Any, tmp_path: Path
) -> None:
    begun, go_on = tmp_path / "begun", tmp_path / "go_on"

    def long() -> None:
        begun.touch()
        while not go_on.exists():
            time.sleep(0.05)

    sampler = sampler_of(cluster)
    long_one = ray.remote(long).remote()
    while not begun.exists():
        time.sleep(0.02)
    time.sleep(2 * SLEEP_S)  # what lies before the window

    def in_the_window() -> None:
        sampler.start()
        time.sleep(SLEEP_S)
        go_on.touch()
        ray.get(long_one)

    at_most_s = took(in_the_window)
    sampler.stop()
    assert SAME * SLEEP_S <= sampler.metrics()["compute_time_s"] <= at_most_s


def test_results_that_are_stored_and_read_take_time_of_their_own(cluster: Cluster, ray: Any) -> None:
    make = ray.remote(lambda: bytearray(20_000_000))
    read = ray.remote(lambda data: len(data))
    ray.get(naps(ray, 2, 0.0))  # a worker's first task takes as long to read as its worker to get to know the job
    idle = [measured(cluster, lambda: ray.get(naps(ray, 2, 0.0))) for _ in range(3)]
    busy = measured(cluster, lambda: ray.get([read.remote(make.remote()) for _ in range(4)]))
    for name in ("transfer_time_s", "serializing_time_s"):  # what else the machine does only adds to them
        assert busy[name] > min(one[name] for one in idle)


def test_nothing_that_happens_is_zero_and_not_unknown(cluster: Cluster, ray: Any) -> None:
    metrics = measured(cluster, lambda: None)
    assert metrics.pop("peak_object_store_bytes") < 100_000_000
    assert metrics == {
        "compute_time_s": 0.0,
        "serializing_time_s": 0.0,
        "transfer_time_s": 0.0,
        "ray_tasks": 0,
        "disk_spill_time_s": 0.0,
        "spilled_bytes": 0,
        "restored_bytes": 0,
        "ray_retries": 0,
        "ray_failures": 0,
    }


@pytest.mark.slow
def test_what_goes_to_disk_is_timed(cluster: Cluster, clusters: RayClusters, ray: Any) -> None:
    def overflow() -> None:
        kept = [ray.put(bytearray(10_000_000)) for _ in range(3 * clusters.store_bytes // 10_000_000)]
        assert all(len(ray.get(one)) == 10_000_000 for one in kept)

    metrics = measured(cluster, overflow)
    assert metrics["spilled_bytes"] >= clusters.store_bytes
    assert metrics["disk_spill_time_s"] > 0
    assert metrics["restored_bytes"] > 0
    assert metrics["peak_object_store_bytes"] > clusters.store_bytes / 2


@pytest.mark.slow
def test_thousands_of_tasks_are_all_counted(cluster: Cluster, ray: Any) -> None:
    nothing = ray.remote(lambda: None)
    metrics = measured(cluster, lambda: ray.get([nothing.remote() for _ in range(3000)]))
    assert metrics["ray_tasks"] == 3000


def test_a_block_that_failed_is_not_waited_for(cluster: Cluster) -> None:
    sampler = sampler_of(cluster)
    sampler.start()
    assert took(sampler.cancel) < 5 * busyness()
    assert sampler.metrics() == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        # Whether the driver, which is not of the cluster, tells that there were tasks at all is up to it.
        ({"RAY_task_events_report_interval_ms": "0"}, r"Ray has no times of \d+ tasks|keeps no events of tasks"),
        ({"RAY_task_events_max_num_task_in_gcs": "10"}, "Ray forgot the events of"),
    ],
)
def test_times_that_ray_does_not_keep_are_unknown(
    clusters: RayClusters, tmp_path_factory: pytest.TempPathFactory, setting: dict[str, str], said: str
) -> None:
    with clusters.start(tmp_path_factory.mktemp("ray"), **setting) as forgetful, forgetful.driver() as ray:
        sampler = sampler_of(forgetful)
        sampler.start()
        ray.get(naps(ray, 30, 0.0))
        sampler.stop()
    of_the_store = {"disk_spill_time_s", "spilled_bytes", "restored_bytes", "peak_object_store_bytes"}
    assert set(sampler.metrics()) == of_the_store
    assert all(stage.executing_s is None for stage in sampler.stages())
    assert re.search(said, "\n".join(sampler.warnings()))


def test_a_cluster_that_does_not_let_us_in_is_a_warning(cluster: Cluster) -> None:
    environment = {**without_ray(os.environ), **cluster.env} | {"RAY_AUTH_TOKEN": "of another cluster" * 3}
    sampler = RayTaskSampler(cluster.python, environment)
    sampler.start()
    sampler.stop()
    assert sampler.metrics() == {}
    assert "was refused" in sampler.warnings()[0]


def test_an_interpreter_that_cannot_do_it_is_a_warning(cluster: Cluster, tmp_path: Any) -> None:
    for python in (str(tmp_path / "none"), "/bin/false"):
        sampler = RayTaskSampler(python, {**without_ray(os.environ), **cluster.env})
        sampler.start()
        sampler.stop()
        assert sampler.metrics() == {}
        assert "the times of tasks are unknown" in sampler.warnings()[0]


def test_asking_leaves_no_job_on_the_cluster(cluster: Cluster, ray: Any) -> None:
    state = sys.modules["ray._private.state"]
    before = len(state.jobs())
    measured(cluster, lambda: None)
    assert len(state.jobs()) == before


def test_a_cluster_that_knows_of_nothing_is_not_taken_for_an_idle_one() -> None:
    view = View(SimpleNamespace(events_by_task=[], num_status_task_events_dropped=0), Window(0, 1))
    assert not view.is_whole(forgotten=0)
    assert view.problems(forgotten=0) == ["the cluster stores no events of tasks"]


@pytest.mark.parametrize(
    ("event", "part"), [((0, 4), None), ((5, 15), 5), ((12, 14), 2), ((18, 30), 2), ((5, 30), 10), ((21, 22), None)]
)
def test_the_part_of_a_time_in_a_window(event: tuple[int, int], part: int | None) -> None:
    assert Window(10**10, 2 * 10**10).part_of(event[0] * 10**9, event[1] * 10**9) == part


def test_what_a_node_wrote_is_unknown_once_it_is_gone() -> None:
    one, two = {"spilled_bytes_total": 3.0}, {"spilled_bytes_total": 5.0}
    assert difference({"a": one}, {"a": two, "new": one}) == {"spilled_bytes_total": 5.0}
    assert difference({"a": one, "gone": one}, {"a": two}) is None
    assert difference(None, {"a": two}) is None
    assert difference({}, {}) is None


def test_lengths_are_written_as_http_2_wants_them() -> None:
    assert [length(number) for number in (0, 126, 127, 128, 1337)] == [
        b"\x00",
        b"\x7e",
        b"\x7f\x00",
        b"\x7f\x01",
        b"\x7f\xba\x09",
    ]


def test_a_call_nobody_answers_is_an_error() -> None:
    with pytest.raises(OSError, match=r"refused|closed"):
        call("127.0.0.1:9", "/ray.rpc.TaskInfoGcsService/GetTaskEvents", b"", {})


@pytest.mark.slow
def test_tasks_whose_times_went_with_their_actor_are_counted_apart(cluster: Cluster, ray: Any) -> None:
    class Actor:
        def work(self) -> int:
            return os.getpid()

    actors = [ray.remote(num_cpus=0)(Actor).remote() for _ in range(3)]
    ray.get([actor.work.remote() for actor in actors])
    while sum(event["cat"] == "task::Actor.work" for event in ray.timeline()) < len(actors):
        pass  # they have not told of what they did so far
    sampler = sampler_of(cluster)
    sampler.start()
    ray.get(naps(ray, 12))
    for actor in actors:  # before it tells of its work, which it does once a second
        os.kill(ray.get(actor.work.remote()), signal.SIGKILL)
    sampler.stop()
    metrics = sampler.metrics()
    lost = metrics.get("ray_tasks_without_times", 0)
    assert isinstance(lost, int)
    assert lost > 0
    assert metrics["ray_tasks"] == 12 + len(actors) - lost
    assert f"Ray has no times of {lost} tasks" in sampler.warnings()[0]


ANSWERS = """
import json, os, sys
with os.fdopen(int(sys.argv[1]), "w", buffering=1) as answers:
    print('{"ready": true}', file=answers)
    sys.stdin.readline()
    print(os.environ["ANSWER"], file=answers)
"""


@pytest.mark.parametrize(
    ("answer", "known", "said"),
    [
        ('{"tasks": null, "stages": [], "store_peak": null, "disk": {}}', set(), ""),
        ('{"tasks": null, "disk": {"spilled_bytes_total": 5.0, "restored_bytes_total": null}}', {"spilled_bytes"}, ""),
        ('{"disk": {"spill_time_total_s": NaN, "restore_time_total_s": 1.0}, "store_peak": Infinity}', set(), ""),
        ('{"tasks": {"count": 1}}', set(), "makes no sense"),
        ('{"tasks": null, "stages": [{"name": "one", "kind": "nothing we know"}]}', set(), "makes no sense"),
        ('{"tasks": null, "stages": [null]}', set(), "makes no sense"),
        ("[1]", set(), "something else"),
        ("no JSON", set(), "something else"),
    ],
)
def test_whatever_a_cluster_answers_is_left_out_or_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, known: set[str], said: str
) -> None:
    (tmp_path / "program.py").write_text(ANSWERS)
    monkeypatch.setattr(ray_tasks, "_PROGRAM", tmp_path / "program.py")
    sampler = RayTaskSampler(sys.executable, {**os.environ, "ANSWER": answer})
    sampler.start()
    sampler.stop()
    assert set(sampler.metrics()) == known
    assert sampler.stages() == ()
    assert [said in warning for warning in sampler.warnings()] == ([True] if said else [])


MESSAGES_ALONE = """
import sys
from curator_bench.measure.ray_tasks_program import messages
control_store, node = messages(alone=True)
assert control_store.GetTaskEventsRequest().SerializeToString() == b""
assert node.GetNodeStatsRequest(include_memory_info=False) is not None
print("ray._raylet" in sys.modules)
"""


def test_messages_come_without_the_rest_of_ray_where_they_can() -> None:
    done = subprocess.run([sys.executable, "-c", MESSAGES_ALONE], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_messages_that_cannot_come_alone_come_with_ray(tmp_path: Path) -> None:
    """Messages of another version may import what is elsewhere in Ray; here they are found by a finder of Ray's."""
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "__init__.py").write_text(f"import sys; __path__.append({str(RAY)!r})\n")
    done = subprocess.run(
        [sys.executable, "-c", MESSAGES_ALONE],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
