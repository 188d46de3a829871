"""The engine nemo_curator: the same pipeline of NeMo Curator's own stages, on its own executors."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import ray
from alm_manifest import count_entries, read_lines
from alm_results import Outcome, Task
from alm_work import Row, Settings, found_in
from nemo_curator.backends.ray_actor_pool import RayActorPoolExecutor
from nemo_curator.backends.ray_data import RayDataExecutor
from nemo_curator.backends.xenna import XennaExecutor
from nemo_curator.pipeline import Pipeline
from nemo_curator.stages.audio.alm import ALMDataBuilderStage, ALMDataOverlapStage
from nemo_curator.stages.audio.common import ManifestReader, ManifestWriterStage
from nemo_curator.stages.base import ProcessingStage
from nemo_curator.tasks import AudioTask

EXECUTORS = {"xenna": XennaExecutor, "ray_data": RayDataExecutor, "ray_actors": RayActorPoolExecutor}
MEASURED = (
    "stage_name",
    "process_time",
    "actor_idle_time",
    "input_data_size_mb",
    "num_items_processed",
    "custom_metrics",
)


@dataclass
class RepeatStage(ProcessingStage):  # type: ignore[misc]  # the package has no types where it is not installed
    """Hands on every entry as often as it shall be processed; the stages after it replace what is in an entry."""

    repeat_factor: int
    name: str = "repeat_entries"

    def inputs(self) -> tuple[list[str], list[str]]:
        return [], []

    def outputs(self) -> tuple[list[str], list[str]]:
        return [], []

    def process(self, task: AudioTask) -> list[AudioTask]:
        return [
            AudioTask(dataset_name=task.dataset_name, data=dict(task.data), _stage_perf=list(task._stage_perf))
            for _ in range(self.repeat_factor)
        ]

    def ray_stage_spec(self) -> dict[str, Any]:
        return {"is_fanout_stage": True}


def run(url: str, repeat_factor: int, settings: Settings, executor: str) -> Outcome:
    """Processes a manifest on the cluster of RAY_ADDRESS, which its executors look for themselves."""
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    pipeline = Pipeline(name="alm", stages=_stages(url, repeat_factor, settings))
    began = perf_counter()
    tasks = pipeline.run(EXECUTORS[executor]()) or []
    seconds = perf_counter() - began
    rows = [Row(number, found_in(task.data)) for number, task in enumerate(tasks)]
    return Outcome(seconds, count_entries(read_lines(url)) * repeat_factor, rows, [_plain(task) for task in tasks])


def _stages(url: str, repeat_factor: int, settings: Settings) -> list[Any]:
    windows = settings.windows
    stages = [
        ManifestReader(manifest_path=url),
        *([RepeatStage(repeat_factor=repeat_factor)] if repeat_factor > 1 else []),
        ALMDataBuilderStage(
            target_window_duration=windows.target_window_duration,
            tolerance=windows.tolerance,
            min_sample_rate=windows.min_sample_rate,
            min_bandwidth=windows.min_bandwidth,
            min_speakers=windows.min_speakers,
            max_speakers=windows.max_speakers,
            truncation=windows.truncation,
        ),
        ALMDataOverlapStage(
            overlap_percentage=settings.overlap_percentage, target_duration=windows.target_window_duration
        ),
    ]
    if settings.output_path is not None:
        stages.append(ManifestWriterStage(output_path=f"{settings.output_path.rstrip('/')}/part-00000.jsonl"))
    return stages


def _plain(task: AudioTask) -> Task:
    """Its measurements without its data, in plain values: they can be read where NeMo Curator is not."""
    return {
        "_stage_perf": [{name: getattr(measurement, name) for name in MEASURED} for measurement in task._stage_perf]
    }
