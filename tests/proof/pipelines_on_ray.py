"""Five pipelines on Ray whose stages compute; the stage that the file `slowed` names computes longer.

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

UNIT = 400_000
"""Additions of some 20 ms: a stage takes seconds, beside which starting a process of Ray is little."""
NOBODY = ("", 1.0)


def slowed() -> tuple[str, float]:
    name, _, factor = Path("slowed").read_text().partition(" ")
    return name, float(factor or 1)


def compute(stage: str, units: int, told: tuple[str, float]) -> None:
    total = 0
    for number in range(int(units * UNIT * (told[1] if told[0] == stage else 1.0))):
        total += number


@ray.remote
def load(number: int, told: tuple[str, float]) -> int:
    compute("load", 12, told)
    return number


@ray.remote
def clean(number: int, told: tuple[str, float]) -> int:
    compute("clean", 20, told)
    return number


@ray.remote
def tokenize(number: int, told: tuple[str, float]) -> int:
    compute("tokenize", 16, told)
    return number


@ray.remote
def count(numbers: list[int], told: tuple[str, float]) -> int:
    compute("count", 60, told)
    return len(numbers)


def waves(told: tuple[str, float]) -> None:
    """Each stage waits for all tasks of the one before."""
    loaded = ray.get([load.remote(number, told) for number in range(8)])
    cleaned = ray.get([clean.remote(number, told) for number in loaded])
    ray.get([tokenize.remote(number, told) for number in cleaned])
    ray.get(count.remote(cleaned, told))


def chains(told: tuple[str, float]) -> None:
    """Tasks take the results of others, so that stages overlap."""
    loaded = [load.remote(number, told) for number in range(10)]
    ray.get([tokenize.remote(clean.remote(one, told), told) for one in loaded])


@ray.remote
class Worker:
    """Does two kinds of work, as actors of a service do."""

    def embed(self, number: int, told: tuple[str, float]) -> int:
        compute("embed", 30, told)
        return number

    def rank(self, number: int, told: tuple[str, float]) -> int:
        compute("rank", 18, told)
        return number


def actors(told: tuple[str, float]) -> None:
    workers = [Worker.remote() for _ in range(2)]  # type: ignore[attr-defined]
    embedded = [workers[number % 2].embed.remote(load.remote(number, told), told) for number in range(8)]
    ray.get([workers[number % 2].rank.remote(one, told) for number, one in enumerate(embedded)])


class Scorer:
    """A model that is loaded once."""

    def __init__(self, told: tuple[str, float]) -> None:
        self._told = told

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        compute("Scorer", 24, self._told)
        return batch


def normalize(batch: dict[str, Any], told: tuple[str, float] = NOBODY) -> dict[str, Any]:
    compute("normalize", 16, told)
    return batch


def flag(batch: dict[str, Any], told: tuple[str, float] = NOBODY) -> dict[str, Any]:
    compute("flag", 10, told)
    return batch


def operators(told: tuple[str, float]) -> None:
    """Operators of Ray Data that do not fuse, as they ask for other resources."""
    data = ray.data.range(8, override_num_blocks=8)
    data = data.map_batches(normalize, fn_kwargs={"told": told}, num_cpus=1)
    data = data.map_batches(flag, fn_kwargs={"told": told}, num_cpus=0.5)
    data.materialize()


def actor_pool(told: tuple[str, float]) -> None:
    """An operator of tasks before a pool of actors, then plain tasks."""
    data = ray.data.range(8, override_num_blocks=8).map_batches(normalize, fn_kwargs={"told": told}, num_cpus=0.5)
    pool = ActorPoolStrategy(size=1)
    data = data.map_batches(Scorer, fn_constructor_kwargs={"told": told}, compute=pool, num_cpus=1)
    numbers = [int(row["id"]) for row in data.take_all()]
    ray.get([clean.remote(number, told) for number in numbers])


PIPELINES = {one.__name__: one for one in (waves, chains, actors, operators, actor_pool)}


def main() -> None:
    name, out = sys.argv[1], Path(sys.argv[-1])
    ray.init(log_to_driver=False, logging_level=logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    PIPELINES[name](slowed())
    (out / "params.json").write_text("{}")
    (out / "metrics.json").write_text(json.dumps({"is_success": True}))


if __name__ == "__main__":
    main()
