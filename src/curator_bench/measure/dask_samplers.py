"""Samplers of a Dask cluster, through a client of `distributed`: memory of its workers, and times of its tasks."""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from curator_bench.values import Stage, StageKind

if TYPE_CHECKING:
    from collections.abc import Mapping

_EVERY_S = 0.2
_LABEL = "run"
_TRANSFERS, _READS = ("transfer",), ("deserialize",)
_SPILLS = ("disk-read", "disk-write")
_NO_ANSWER = "the Dask cluster did not answer"


class DaskMemorySampler:
    """Sampler of `peak_memory_bytes` and `average_memory_bytes`: the process memory of all workers together."""

    def __init__(self, client: Any) -> None:
        from distributed.diagnostics.memory_sampler import MemorySampler

        self._client = client
        self._sampler: Any = MemorySampler()
        self._open = ExitStack()
        self._warnings: list[str] = []

    def start(self) -> None:
        sampling = self._sampler.sample(_LABEL, client=self._client, measure="process", interval=_EVERY_S)
        self._guarded(lambda: self._open.enter_context(sampling))

    def stop(self) -> None:
        self._guarded(self._open.close)

    def metrics(self) -> Mapping[str, float | int | str]:
        sizes = [size for _, size in self._sampler.samples.get(_LABEL, ())]
        return {"average_memory_bytes": statistics.fmean(sizes), "peak_memory_bytes": max(sizes)} if sizes else {}

    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)

    def _guarded(self, call: Any) -> None:
        try:
            call()
        except Exception as error:  # a sampler never fails a run
            self._warnings.append(f"memory is not known: {_NO_ANSWER}: {type(error).__name__}: {error}")


class DaskTaskSampler:
    """Sampler of the times of tasks, summed over all workers, and of stages: tasks whose keys have the same prefix."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._began = time.time()
        self._found: dict[str, Any] = {}
        self._warnings: list[str] = []

    def start(self) -> None:
        self._on_scheduler("begin")
        self._began = time.time()

    def stop(self) -> None:
        self._found = self._on_scheduler("end") or {}

    def cancel(self) -> None:
        """Stop without an answer."""
        self._on_scheduler("end")

    def metrics(self) -> Mapping[str, float | int | str]:
        if not self._found:
            return {}
        return {
            "compute_time_s": self._sum("compute"),
            "serializing_time_s": self._sum(*_READS),
            "transfer_time_s": self._sum(*_TRANSFERS),
            "disk_spill_time_s": self._sum(*_SPILLS),
            "dask_tasks": sum(self._found["counts"].values()),
        }

    def stages(self) -> tuple[Stage, ...]:
        """Return the stages in the order in which they began."""
        names = sorted(self._found.get("spans", {}), key=lambda name: self._found["spans"][name])
        return tuple(map(self._stage, names))

    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)

    def _stage(self, name: str) -> Stage:
        actions, (first, last) = self._found["actions"][name], self._found["spans"][name]
        return Stage(
            name=name,
            kind=StageKind.TASK,
            count=self._found["counts"][name],
            started_s=max(first - self._began, 0.0),
            ended_s=max(last - self._began, 0.0),
            executing_s=actions.get("compute", 0.0),
            reading_s=sum(actions.get(action, 0.0) for action in (*_READS, *_TRANSFERS)),
            failures=self._found["failures"].get(name, 0),
        )

    def _sum(self, *actions: str) -> float:
        return float(sum(seconds.get(action, 0.0) for seconds in self._found["actions"].values() for action in actions))

    def _on_scheduler(self, function: str) -> Any:
        import cloudpickle

        from curator_bench.measure import dask_plugin

        try:
            cloudpickle.register_pickle_by_value(dask_plugin)
            return self._client.run_on_scheduler(getattr(dask_plugin, function))
        except Exception as error:  # a sampler never fails a run
            self._warnings.append(f"times of tasks are not known: {_NO_ANSWER}: {type(error).__name__}: {error}")
            return None
