"""The builtin engine on Ray, as few large tasks. Ray Data and actors differ in who hands them out.

Where one machine is enough, alm_processes does the same work without Ray: starting that takes longer than a small
manifest.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import alm_lines
import alm_manifest
import alm_overlap
import alm_windows
import alm_work
import ray
from alm_manifest import Job, Shard, count_entries, jobs_for, read_lines
from alm_results import Outcome, tasks_of
from alm_work import Row, Settings, do_job

TASKS_PER_CPU = 4  # so that a task that takes longer than the others does not leave the rest of the machine idle


def run(url: str, repeat_factor: int, settings: Settings, executor: str) -> Outcome:
    """Processes a manifest on the cluster of RAY_ADDRESS or, without one, on a cluster of its own on this machine."""
    began = perf_counter()
    ray.init()
    try:
        _ship_our_code()
        cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
        lines = read_lines(url)
        jobs = jobs_for(lines, repeat_factor, cpus * TASKS_PER_CPU)
        tables = EXECUTORS[executor](jobs, settings, min(cpus, len(jobs))) if jobs else []
    finally:
        ray.shutdown()
    seconds = perf_counter() - began
    rows = [row for table in tables for row in table]
    return Outcome(seconds, count_entries(lines) * repeat_factor, rows, tasks_of(rows))


def _ship_our_code() -> None:
    """Workers get these modules with their tasks: they may be on machines that have no copy of them."""
    for module in (alm_lines, alm_manifest, alm_overlap, alm_windows, alm_work, sys.modules[__name__]):
        ray.cloudpickle.register_pickle_by_value(module)


def _on_actors(jobs: list[Job], settings: Settings, workers: int) -> list[list[Row]]:
    class Curator:
        def do(self, number: int, job: Job) -> list[Row]:
            return do_job(number, job, settings)

    actor_class: Any = ray.remote(num_cpus=1)(Curator)
    pool = ray.util.ActorPool([actor_class.remote() for _ in range(workers)])
    return list(pool.map_unordered(lambda actor, numbered: actor.do.remote(*numbered), list(enumerate(jobs))))


def _on_ray_data(jobs: list[Job], settings: Settings, workers: int) -> list[list[Row]]:
    import ray.data

    def do(batch: dict[str, Any]) -> dict[str, Any]:
        shard = Shard(int(batch["first_line"][0]), batch["text"][0])
        rows = do_job(int(batch["number"][0]), Job(shard, int(batch["repeats"][0])), settings)
        return {"rows": [ray.cloudpickle.dumps(rows)]}

    items = [
        {"number": number, "first_line": job.shard.first_line, "text": job.shard.text, "repeats": job.repeats}
        for number, job in enumerate(jobs)
    ]
    dataset = ray.data.from_items(items, override_num_blocks=len(items))
    return [ray.cloudpickle.loads(row["rows"]) for row in dataset.map_batches(do, batch_size=1).iter_rows()]


EXECUTORS: dict[str, Callable[[list[Job], Settings, int], list[list[Row]]]] = {
    "ray_data": _on_ray_data,
    "ray_actors": _on_actors,
}
