"""Five pipelines on Ray whose stages compute; the stage that the file `work` names computes longer.

The file has the additions of a unit of work, the stage, and how many times as long it takes.

python pipelines_on_ray.py NAME FOLDER_OF_THE_RUN
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import ray
import ray.data
from ray.data import ActorPoolStrategy

Work = tuple[int, str, float]
NONE: Work = (0, "", 1.0)


def read_work() -> Work:
    unit, stage, factor = Path("work").read_text().split()
    return int(unit), stage, float(factor)


def compute(stage: str, units: int, work: Work) -> None:
    unit, slower, factor = work
    total = 0
    for number in range(int(units * unit * (factor if stage == slower else 1.0))):
        total += number


@ray.remote
def load(number: int, work: Work) -> int:
    compute("load", 12, work)
    return number


@ray.remote
def clean(number: int, work: Work) -> int:
    compute("clean", 20, work)
    return number


@ray.remote
def tokenize(number: int, work: Work) -> int:
    compute("tokenize", 16, work)
    return number


@ray.remote
def count(numbers: list[int], work: Work) -> int:
    compute("count", 60, work)
    return len(numbers)


def waves(work: Work) -> None:
    """Each stage waits for all tasks of the one before."""
    loaded = ray.get([load.remote(number, work) for number in range(8)])
    cleaned = ray.get([clean.remote(number, work) for number in loaded])
    ray.get([tokenize.remote(number, work) for number in cleaned])
    ray.get(count.remote(cleaned, work))


def chains(work: Work) -> None:
    """Tasks take the results of others, so that stages overlap."""
    loaded = [load.remote(number, work) for number in range(10)]
    ray.get([tokenize.remote(clean.remote(one, work), work) for one in loaded])


@ray.remote
class Worker:
    """Does two kinds of work, as actors of a service do."""

    def embed(self, number: int, work: Work) -> int:
        compute("embed", 30, work)
        return number

    def rank(self, number: int, work: Work) -> int:
        compute("rank", 18, work)
        return number


def actors(work: Work) -> None:
    workers = [Worker.remote() for _ in range(2)]  # type: ignore[attr-defined]
    embedded = [workers[number % 2].embed.remote(load.remote(number, work), work) for number in range(8)]
    ray.get([workers[number % 2].rank.remote(one, work) for number, one in enumerate(embedded)])


class Scorer:
    """A model that is loaded once."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        compute("Scorer", 24, self._work)
        return batch


def normalize(batch: dict[str, Any], work: Work = NONE) -> dict[str, Any]:
    compute("normalize", 16, work)
    return batch


def flag(batch: dict[str, Any], work: Work = NONE) -> dict[str, Any]:
    compute("flag", 10, work)
    return batch


def operators(work: Work) -> None:
    """Operators of Ray Data that do not fuse, as they ask for other resources."""
    data = ray.data.range(8, override_num_blocks=8)
    data = data.map_batches(normalize, fn_kwargs={"work": work}, num_cpus=1)
    data = data.map_batches(flag, fn_kwargs={"work": work}, num_cpus=0.5)
    data.materialize()


def actor_pool(work: Work) -> None:
    """An operator of tasks before a pool of actors, then plain tasks."""
    data = ray.data.range(8, override_num_blocks=8).map_batches(normalize, fn_kwargs={"work": work}, num_cpus=0.5)
    pool = ActorPoolStrategy(size=1)
    data = data.map_batches(Scorer, fn_constructor_kwargs={"work": work}, compute=pool, num_cpus=1)
    numbers = [int(row["id"]) for row in data.take_all()]
    ray.get([clean.remote(number, work) for number in numbers])


PIPELINES = {one.__name__: one for one in (waves, chains, actors, operators, actor_pool)}


def main() -> None:
    name, out = sys.argv[1], Path(sys.argv[-1])
    ray.init(log_to_driver=False, logging_level=logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    PIPELINES[name](read_work())
    (out / "params.json").write_text("{}")
    (out / "metrics.json").write_text(json.dumps({"is_success": True}))


if __name__ == "__main__":
    main()
