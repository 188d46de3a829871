"""Runs of simulated pipelines for tests, and a recorded history of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from cli.nights import History
from simulated_pipelines import Pipeline, simulate
from sqlalchemy import select, update

from curator_bench.causes.matched_stages import StagedRun
from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.stages import rows_of
from curator_bench.store.tables import RUNS, STAGES

SECONDS = (0.5, 1.0, 0.8, 0.6, 0.7)
"""The stage in the middle of the work, number 1, has one worker and so limits a streaming pipeline."""
WORKERS = (2, 1, 2, 1, 1)


def runs(
    count: int,
    shape: str = "serial",
    *,
    slower: dict[int, float] | None = None,
    seed: int = 0,
    noise: float = 0.01,
) -> list[StagedRun]:
    """Simulate runs of a pipeline; the tasks of stages in `slower` take that many times as long."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        own = np.exp(random.normal(0, noise, len(SECONDS)))
        seconds = [
            one * more * (slower or {}).get(at, 1.0) for at, (one, more) in enumerate(zip(SECONDS, own, strict=True))
        ]
        found.append(simulate(random, Pipeline(shape, seconds, WORKERS, 4, 3)))
    return found


def renamed(found: Sequence[StagedRun], names: dict[str, str]) -> list[StagedRun]:
    return [
        replace(run, stages=tuple(replace(one, name=names.get(one.name, one.name)) for one in run.stages))
        for run in found
    ]


def record(
    history: History, found: Sequence[StagedRun], entry: str = "pipeline", *, begin: int = 0, **more: Any
) -> None:
    """Record runs as nights of an entry, with the time of each as `exec_time_s` and `time_taken_s`.

    Only the stages of those from `begin` on are recorded; the others have been before.
    """
    walls = [run.wall_s for run in found]
    history.nights({(entry, name): walls for name in ("exec_time_s", "time_taken_s")}, None, **more)
    with open_for_writing(database_url(str(history.db))) as database, database.writing() as connection:
        of_entry = RUNS.c.name == entry, RUNS.c.id.not_in(select(STAGES.c.run))
        ids = connection.scalars(select(RUNS.c.id).where(*of_entry).order_by(RUNS.c.start)).fetchall()
        rows = [row for run, staged in zip(ids, found[begin:], strict=True) for row in rows_of(run, staged.stages)]
        connection.execute(STAGES.insert(), rows)
        connection.execute(update(RUNS).values(ray_num_cpus=found[0].cpus))
