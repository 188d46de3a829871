"""How long the program looks for the events of a script's tasks: as long as somebody could still report them."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from curator_bench.measure import ray_tasks_program
from curator_bench.measure.ray_tasks_program import FINISHED, Baseline

WORKER = b"worker"


class ClusterOfOneTask:
    """A cluster whose only task has finished, and whose worker reports its times at the look of this number."""

    def __init__(self, reports_at: int, living_workers: set[bytes]) -> None:
        self.looks = 0
        self._reports_at = reports_at
        self._living_workers = living_workers
        self._finished_ns = time.time_ns()

    def task_events(self) -> Any:
        self.looks += 1
        span = SimpleNamespace(event_name="task:execute", start_time=self._finished_ns, end_time=self._finished_ns)
        task = SimpleNamespace(
            task_info=SimpleNamespace(type=0, name="work", func_or_class_name="work"),
            profile_events=SimpleNamespace(events=[span] if self.looks >= self._reports_at else []),
            state_updates=SimpleNamespace(worker_id=WORKER, state_ts_ns={FINISHED: self._finished_ns}),
            attempt_number=0,
        )
        return SimpleNamespace(events_by_task=[task], num_status_task_events_dropped=0, num_filtered_on_gcs=0)

    def living_workers(self) -> set[bytes]:
        return self._living_workers

    def has_driver_since(self, _: int) -> bool:
        return True

    def nodes(self) -> list[tuple[str, str]]:
        return []

    def store_use(self) -> None:
        return None


@pytest.fixture(autouse=True)
def _patience_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_tasks_program, "REPORTED_EVERY_S", 3600.0)
    monkeypatch.setattr(ray_tasks_program, "LOOK_EVERY_S", 0.01)


def answer_about(cluster: Any) -> dict[str, Any]:
    now = time.time_ns()
    return Baseline(cluster, is_new=True).compare(now - 10**9, now, is_over=True)


def test_a_worker_that_is_gone_is_not_waited_for() -> None:
    cluster = ClusterOfOneTask(reports_at=10**6, living_workers=set())
    assert "1 tasks (their workers were killed)" in answer_about(cluster)["problems"][0]
    assert cluster.looks == 2


def test_a_worker_that_lives_is_waited_for() -> None:
    cluster = ClusterOfOneTask(reports_at=5, living_workers={WORKER})
    assert answer_about(cluster)["tasks"]["count"] == 1
    assert cluster.looks == 6
