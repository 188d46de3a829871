"""Does the same work on every item of a list on the cluster of RAY_ADDRESS: by Ray Data, or by a pool of actors.

Results come back in the order of their items. Work and items have to be picklable, and small: they name files. Workers
on other machines find those, and the modules beside this one, where they stand here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import ray
from ray import cloudpickle

Item = TypeVar("Item")
Result = TypeVar("Result")


class Executor(Protocol):
    """Where the work is done."""

    def run(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]: ...


class RayDataExecutor:
    """Each item is a block of a dataset, each piece of work a task of its map operator."""

    def run(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        import ray.data

        if not items:
            return []

        def work_on(row: dict[str, Any]) -> dict[str, Any]:
            return {"number": row["number"], "result": cloudpickle.dumps(work(cloudpickle.loads(row["item"])))}

        rows = [{"number": number, "item": cloudpickle.dumps(item)} for number, item in enumerate(items)]
        dataset = ray.data.from_items(rows, override_num_blocks=len(rows)).map(work_on, num_cpus=1)
        found = sorted(dataset.take_all(), key=lambda row: row["number"])
        return [cloudpickle.loads(row["result"]) for row in found]


class RayActorsExecutor:
    """An actor for each CPU; whichever is free takes the next item."""

    def __init__(self) -> None:
        self._actors: list[Any] = []

    def run(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        self._actors = self._actors or [_worker_class().remote() for _ in range(number_of_cpus())]
        pool = ray.util.ActorPool(self._actors)
        shared_work = ray.put(work)
        return list(pool.map(lambda actor, item: actor.do.remote(shared_work, item), list(items)))


EXECUTORS: dict[str, Callable[[], Executor]] = {"ray_data": RayDataExecutor, "ray_actors": RayActorsExecutor}


@contextmanager
def connected(name: str) -> Iterator[Executor]:
    """An executor whose workers have started, so that what is measured afterwards is the work."""
    ray.init(logging_level=logging.WARNING, log_to_driver=False)
    try:
        if name == "ray_data":
            _quiet_ray_data()
        executor = EXECUTORS[name]()
        executor.run(_nothing, range(number_of_cpus()))
        yield executor
    finally:
        ray.shutdown()


def number_of_cpus() -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def _nothing(_: int) -> None:
    """Brings a worker to life, with the libraries that the work needs."""
    import pyarrow.compute
    import pyarrow.dataset
    import pyarrow.json
    import pyarrow.parquet  # noqa: F401


def _worker_class() -> Any:
    class Worker:
        def do(self, work: Callable[[Any], Any], item: Any) -> Any:
            return work(item)

    return ray.remote(num_cpus=1)(Worker)


def _quiet_ray_data() -> None:
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
