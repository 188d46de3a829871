"""What traces the Python code of a thread is named."""

from __future__ import annotations

import cProfile
import sys

import pytest

from curator_bench.measure.tracers import tracer_here


def test_nothing_traces_this_test() -> None:
    assert tracer_here() == ""


def test_a_tracer_is_named_by_its_package() -> None:
    class Tracer:
        def __call__(self, *_: object) -> None:
            """Trace nothing."""

    Tracer.__module__ = "coverage.tracer"
    sys.settrace(Tracer())
    try:
        assert tracer_here() == "coverage"
    finally:
        sys.settrace(None)


def test_a_profiler_is_named() -> None:
    with cProfile.Profile():
        name = tracer_here()
    assert name


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is of Python 3.12")
def test_a_tool_that_is_told_of_events_is_named() -> None:
    monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    monitoring.use_tool_id(monitoring.COVERAGE_ID, "coverage")
    try:
        assert tracer_here() == "coverage"
    finally:
        monitoring.free_tool_id(monitoring.COVERAGE_ID)
