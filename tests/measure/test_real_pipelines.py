"""In pipelines on a real cluster, of plain tasks, actors and Ray Data, the stage that was made slower is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from curator_bench.causes.explanation import Explanation, explain
from curator_bench.causes.matched_stages import StagedRun
from curator_bench.cluster.environment import without_ray
from curator_bench.cluster.model import Cluster
from curator_bench.measure.ray_tasks import RayTaskPrograms, RayTaskSampler

pytestmark = pytest.mark.slow

RUNS = 3
SLOWER = 1.8
CASES = {
    "tasks": "tasks_clean",
    "chain": "chain_embed",
    "actors": "ActorsScore.work",
    "data": "data_filter",
    "fused": "fused_parse",
}
"""The stage that is made slower, by the beginning of the names of all stages of its pipeline."""
# All pipelines are in one script, as the start of a driver takes longer than any of them.
SCRIPT = """
import json, sys, time
import ray, ray.data
ray.init(log_to_driver=False, logging_level="ERROR")
ray.data.DataContext.get_current().enable_progress_bars = False
slower, took = float(sys.argv[1]), {}


def nap(seconds, times=1.0):
    time.sleep(seconds * times)


@ray.remote
def tasks_read(): nap(0.06)
@ray.remote
def tasks_clean(): nap(0.05, slower)
@ray.remote
def tasks_write(): nap(0.08)
@ray.remote
def chain_load(number): nap(0.07)
@ray.remote
def chain_embed(one): nap(0.06, slower)
@ray.remote
def chain_save(one): nap(0.05)


class Worker:
    seconds, times = 0.05, 1.0
    def work(self, one): nap(self.seconds, self.times)


@ray.remote(num_cpus=0.5)
class ActorsFetch(Worker): seconds = 0.07
@ray.remote(num_cpus=0.5)
class ActorsScore(Worker): seconds, times = 0.06, slower
@ray.remote(num_cpus=0.5)
class ActorsStore(Worker): seconds = 0.04


def each(seconds, times=1.0):
    def step(batch):
        nap(seconds, times)
        return batch
    return step


def named(name, seconds, times=1.0):
    step = each(seconds, times)
    step.__name__ = step.__qualname__ = name
    return step


class data_filter:
    def __call__(self, batch):
        nap(0.08, slower)
        return batch


class data_store:
    def __call__(self, batch):
        nap(0.07)
        return batch


def tasks():
    for stage in (tasks_read, tasks_clean, tasks_write):
        ray.get([stage.remote() for _ in range(12)])


def chain():
    ray.get([chain_save.remote(chain_embed.remote(chain_load.remote(one))) for one in range(10)])


def actors():
    fetch, score, store = (one.remote() for one in (ActorsFetch, ActorsScore, ActorsStore))
    ray.get([store.work.remote(score.work.remote(fetch.work.remote(one))) for one in range(10)])


def data():
    pool = {"batch_size": 1, "compute": ray.data.ActorPoolStrategy(size=1), "num_cpus": 0.5}
    found = ray.data.range(10, override_num_blocks=10).map_batches(named("data_load", 0.02), batch_size=1, num_cpus=0.5)
    found.map_batches(data_filter, **pool).map_batches(data_store, **pool).materialize()


def fused():
    found = ray.data.range(8, override_num_blocks=8).map_batches(named("fused_parse", 0.08, slower), batch_size=1)
    pool = {"batch_size": 1, "compute": ray.data.ActorPoolStrategy(size=1)}
    found.map_batches(named("fused_trim", 0.02), batch_size=1).map_batches(FusedRank, **pool).materialize()


class FusedRank:
    def __call__(self, batch):
        nap(0.05)
        return batch


for case in (tasks, chain, actors, data, fused):
    began = time.monotonic()
    case()
    took[case.__name__] = time.monotonic() - began
time.sleep(1.5)  # for the last reports of the workers
print(json.dumps(took))
"""


@pytest.fixture(scope="module")
def measured(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Explanation]:
    """The explanation of each pipeline, from a few runs of all of them on each side."""
    folder, programs = tmp_path_factory.mktemp("pipelines"), RayTaskPrograms()
    script = folder / "script.py"
    script.write_text(SCRIPT)
    sides = [[_run(cluster, programs, script, times) for _ in range(RUNS)] for times in (1.0, SLOWER)]
    programs.end()
    return {case: explain(*([runs[case] for runs in side] for side in sides)) for case in CASES}


def _run(cluster: Cluster, programs: RayTaskPrograms, script: Path, slower: float) -> dict[str, StagedRun]:
    env = {**without_ray(os.environ), **cluster.env}
    sampler = RayTaskSampler(cluster.python, env, session_dir=cluster.session_dir, programs=programs, is_new=True)
    sampler.start()
    words = [sys.executable, str(script), str(slower)]
    said = subprocess.run(words, env=env, cwd=script.parent, check=True, timeout=300, capture_output=True, text=True)
    sampler.stop()
    took = json.loads(said.stdout.splitlines()[-1])
    stages = sampler.stages()
    return {
        case: StagedRun(
            stages=[replace(stage) for stage in stages if f"{case}_" in stage.name or case.title() in stage.name],
            wall_s=took[case],
            cpus=2.0,
        )
        for case in CASES
    }


@pytest.mark.parametrize("case", CASES)
def test_the_stage_that_was_made_slower_is_named(measured: dict[str, Explanation], case: str) -> None:
    found = measured[case]
    assert found.named, [(stage.name, stage.work) for stage in found.stages]
    assert CASES[case] in found.named[0].name
    assert len(found.named) == 1
    assert found.named[0].word == "regression"
