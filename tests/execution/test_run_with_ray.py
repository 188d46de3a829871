"""A run with a Ray cluster: the one it asked for, found without a word, gone with the run; and its death."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from curator_bench.cluster.environment import CLUSTER_VARIABLE
from curator_bench.execution.run import run_entry
from curator_bench.measure.processes import Mark, busyness, find_processes
from curator_bench.values import RaySettings, RunResult, Verdict

if TYPE_CHECKING:
    from execution.conftest import Desk

SMALL = RaySettings(num_cpus=1, object_store_size=100_000_000)
OURS = """
def ours():
    mark = f"CURATOR_BENCH_RUN={os.environ['CURATOR_BENCH_RUN']}".encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark in Path(f"/proc/{pid}/environ").read_bytes():
                yield int(pid)
        except OSError:
            pass
"""
TELLS = (
    OURS
    + """
import ray
ray.init()
@ray.remote
def hold():
    held = bytearray(b"1" * 200_000_000)
    time.sleep(2)
    return os.environ.get("FROM_THE_ENTRY", "")
resources = ray.cluster_resources()
server = next(pid for pid in ours() if b"gcs_server" in Path(f"/proc/{pid}/cmdline").read_bytes())
cluster = Path(f"/proc/{server}/environ").read_bytes().split(b"CURATOR_BENCH_CLUSTER=")[1].split(bytes(1))[0].decode()
write({
    "address": os.environ["RAY_ADDRESS"],
    "cpus": resources["CPU"],
    "disk": resources.get("disk", 0),
    "seen_by_a_worker": ray.get(hold.remote()),
    "cluster": cluster,
})
"""
)
KILLS_ITS_CLUSTER = (
    OURS
    + """
import signal, ray
ray.init()
write({"half_way": 1})
for pid in ours():
    if WHO in Path(f"/proc/{pid}/cmdline").read_bytes():
        os.kill(pid, signal.SIGKILL)
print("killed", flush=True)
"""
)


@pytest.mark.slow
def test_ray_init_without_a_word_finds_the_cluster_that_was_asked_for(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"RAY_ADDRESS": "203.0.113.7:6379", "RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": "x"}.items():
        monkeypatch.setenv(name, value)
    ray = replace(SMALL, num_cpus=2, resources={"disk": 3})
    result = desk.run(TELLS, ray=ray, env={"FROM_THE_ENTRY": "given"}, timeout_s=90.0)
    assert (result.verdict, result.error) == (Verdict.PASSED, "")
    assert (result.metrics["cpus"], result.metrics["disk"], result.metrics["seen_by_a_worker"]) == (2, 3, "given")
    assert (result.ray_num_cpus, result.ray_num_gpus) == (2, 0)
    assert result.ray_version.startswith("2.")
    assert int(str(result.metrics["peak_memory_bytes"])) > 200_000_000  # what a worker held is in it
    assert float(str(result.metrics["cpu_time_s"])) > 0.3
    nothing_is_left(desk, result)
    assert (desk.entry_dir / "logs" / "ray_startup.log").read_text()
    assert list((desk.entry_dir / "ray_cluster").rglob("raylet.out"))


def nothing_is_left(desk: Desk, result: RunResult) -> None:
    assert not desk.processes()
    assert not find_processes(Mark(str(result.metrics.get("cluster", "-")), CLUSTER_VARIABLE))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("who", "then", "timeout_s"),
    [
        ("gcs_server", "os._exit(1)", 60.0),
        ("raylet/raylet", "os.abort()", 60.0),
        ("head_program", "time.sleep(600)", 6.0),
        ("raylet/raylet", "sys.stdout.flush(); os._exit(0)", 60.0),
    ],
)
def test_a_script_whose_ray_dies_is_an_error_with_the_end_of_its_log(
    desk: Desk, who: str, then: str, timeout_s: float
) -> None:
    """Also where it waits for the cluster until its time is over, or does not notice and ends well."""
    code = f"WHO = {who.encode()!r}\n{KILLS_ITS_CLUSTER}\n{then}"
    result = desk.run(code, ray=SMALL, timeout_s=timeout_s * busyness())
    assert result.verdict is Verdict.ERROR
    assert result.error.startswith("the Ray cluster ended while the script ran. The end of its log:\n  --- ")
    assert result.metrics["half_way"] == 1
    assert "\n  --- raylet.out\n" in result.error
    assert "killed\n" in desk.log.read_text()
    nothing_is_left(desk, result)


HOLDS = """
import mmap, ray
ray.init()

@ray.remote
class Holder:
    def __init__(self, name):
        with open(name, "a+b") as file:
            file.truncate(4096)
            self.held = mmap.mmap(file.fileno(), 4096)

    def ready(self):
        return True

holder = Holder.remote(sys.argv[1])
ray.get(holder.ready.remote())
print("held", flush=True)
time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="Linux keeps shared memory there")
def test_at_a_timeout_the_cluster_goes_too_and_what_its_workers_hold_in_shared_memory(desk: Desk) -> None:
    """Ray ends the workers as soon as their script ends."""
    held = Path("/dev/shm", desk.folder.name)
    result = desk.run(HOLDS, str(held), ray=SMALL, timeout_s=8.0 * busyness())
    assert result.verdict is Verdict.TIMEOUT
    assert "held" in desk.log.read_text().splitlines()
    nothing_is_left(desk, result)
    assert not held.exists()


def test_a_cluster_that_cannot_start_is_an_error_and_keeps_its_log(desk: Desk) -> None:
    ray = replace(SMALL, object_store_size=1, start_retries=0)
    result = desk.run("Path('ran').touch()", ray=ray)
    assert result.verdict is Verdict.ERROR
    assert result.error.startswith("the Ray cluster did not start, tried once")
    assert not (desk.folder / "ran").exists()
    assert (desk.entry_dir / "logs" / "ray_startup.log").exists()
    nothing_is_left(desk, result)


@pytest.mark.slow
def test_runs_that_reuse_a_cluster_have_the_same_one(desk: Desk) -> None:
    code = "import ray; ray.init(); write({'address': os.environ['RAY_ADDRESS']})"
    plan = desk.plan(code, ray=replace(SMALL, reuse=True), timeout_s=60.0, python=sys.executable)
    first, second = run_entry(plan, desk.bench), run_entry(plan, desk.bench)
    assert (first.verdict, second.verdict) == (Verdict.PASSED, Verdict.PASSED)
    assert first.metrics["address"] == second.metrics["address"]
    assert "standing cluster" in Path(desk.entry_dir, "logs", "ray_startup.log").read_text()
    desk.bench.task_programs.end()
    desk.bench.clusters.close()
    nothing_is_left(desk, second)


MANY_TASKS = """
import ray
ray.init(log_to_driver=False, logging_level="ERROR")

@ray.remote
def nap():
    time.sleep(0.01)

ray.get([nap.remote() for _ in range(40)])
time.sleep(2)  # Ray's processes report once a second
write({})
"""


@pytest.mark.slow
def test_a_run_whose_tasks_ray_forgot_says_so_once_and_has_no_stages(desk: Desk) -> None:
    env = {"RAY_task_events_max_num_task_in_gcs": "10"}
    result = desk.run(MANY_TASKS, ray=SMALL, env=env, timeout_s=90.0)
    assert (result.verdict, result.stages) == (Verdict.PASSED, ())
    assert [warning.startswith("Ray forgot the events of ") for warning in result.warnings] == [True]
    assert "ray_tasks" not in result.metrics


KILLED = """
import signal, ray
ray.init(log_to_driver=False, logging_level="ERROR")

@ray.remote
def done():
    time.sleep(0.05)

@ray.remote
def endless():
    time.sleep(600)

ray.get([done.remote() for _ in range(10)])
while sum(event["cat"] == "task::done" for event in ray.timeline()) < 10:
    pass  # not all is reported yet
endless.remote()
time.sleep(0.5)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_of_a_script_that_was_killed_what_ray_was_told_is_known_and_the_rest_is_missing(desk: Desk) -> None:
    result = desk.run(KILLED, ray=SMALL, timeout_s=90.0)
    assert (result.verdict, result.warnings) == (Verdict.CRASHED, ())
    found = {stage.name: stage for stage in result.stages}
    done = found.pop("done")
    assert (done.count, done.times_missing) == (10, 0)
    assert (done.executing_s or 0) >= 0.5
    assert all(stage.executing_s is None and stage.times_missing == stage.count for stage in found.values())
    for stage in result.stages:
        assert 0 <= stage.waits_missing <= stage.count
        assert (stage.waiting_s is None) == (stage.waits_missing == stage.count)
