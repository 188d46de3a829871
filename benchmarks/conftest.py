"""What the benchmarks written in Python share: how much work they do, the driver they do it with, what is measured."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias

import pytest

SCALE_VARIABLE = "BENCH_SCALE"
Measure: TypeAlias = Callable[..., AbstractContextManager[None]]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ray_core: tasks, actors and objects of Ray")
    config.addinivalue_line("markers", "ray_data: shuffles, files and joins of Ray Data")
    config.addinivalue_line("markers", "overhead: what the bench itself costs")
    read_scale()  # a mistake in it is said here, once


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """BENCH_SCALE=10 makes ten times the work. As a parameter it is part of what a benchmark is: results of different
    amounts of work are never compared."""
    if "scale" in metafunc.fixturenames:
        metafunc.parametrize("scale", [read_scale()], ids=[pytest.HIDDEN_PARAM])


def read_scale() -> float:
    text = os.environ.get(SCALE_VARIABLE, "1")
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0 < scale < float("inf"):
        raise pytest.UsageError(f"{SCALE_VARIABLE}: found {text!r}, expected a number above 0")
    return scale


@pytest.fixture
def ray(request: pytest.FixtureRequest, shared_ray_cluster: Any) -> Iterator[Any]:
    """This process as a driver of the shared cluster, which has its workers running."""
    with shared_ray_cluster.driver(log_to_driver=False) as ray:
        ray.cloudpickle.register_pickle_by_value(request.module)  # its functions travel: workers cannot import a test
        try:
            nothing = ray.remote(lambda: None)
            ray.get([nothing.remote() for _ in range(2 * int(shared_ray_cluster.resources["CPU"]))])
            yield ray
        finally:
            ray.cloudpickle.unregister_pickle_by_value(request.module)


@pytest.fixture
def measured(shared_ray_cluster: Any, benchmark_all: Any, record_metric: Any) -> Measure:
    """Measures all there is of a block, and how fast it did what it did::

    with measured(tasks=1000):
        ...
    """

    @contextmanager
    def measure(**done: float) -> Iterator[None]:
        with benchmark_all(shared_ray_cluster):
            began = time.perf_counter()
            yield
            seconds = time.perf_counter() - began
        for what, amount in done.items():
            record_metric(f"{what}_per_s", amount / seconds)

    return measure
