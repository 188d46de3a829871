"""What kind of failure a run is."""

from __future__ import annotations

import pytest

from curator_bench.report.summary import summary_of
from curator_bench.values import Cause, RunRecord, Verdict
from curator_bench.values.failure_category import GPU_MEMORY, HOST_MEMORY


def run(verdict: str, error: str = "", *log: str, cause: str | None = None) -> RunRecord:
    of = Cause(cause) if cause else None
    return RunRecord(name="x", verdict=Verdict(verdict), error=error, log_tail=log, cause=of)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (run("passed"), None),
        (run("skipped", "needs torch"), None),
        (run("failed"), "requirement"),
        (run("timeout", "stopped at timeout_s = 5 s"), "timeout"),
        (run("interrupted"), "interrupted"),
        (run("error", "Ray did not start", cause="cluster"), "cluster"),
        (run("error", "is not there", cause="dataset"), "dataset"),
        (run("error", "something else"), "bench"),
        (run("crashed", "exit code 1", "ValueError: no"), "script"),
        (run("crashed", "exit code 1", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate"), GPU_MEMORY),
        (run("crashed", "", "RuntimeError: CUDA error: out of memory"), GPU_MEMORY),
        (run("crashed", "", "MemoryError: std::bad_alloc: out_of_memory: CUDA error at: x.hpp"), GPU_MEMORY),
        (run("crashed", "exit code 1", "MemoryError"), HOST_MEMORY),
        (run("crashed", "", "numpy._core._exceptions._ArrayMemoryError: Unable to allocate"), HOST_MEMORY),
        (run("crashed", "", "terminate called after throwing an instance of 'std::bad_alloc'"), HOST_MEMORY),
        (run("crashed", "", "DefaultCPUAllocator: can't allocate memory: you tried"), HOST_MEMORY),
        (run("crashed", "ended by SIGKILL; meanwhile the kernel ended a process for want of memory"), HOST_MEMORY),
        (run("crashed", "ended by SIGKILL"), "script"),
        (run("crashed", "", "ray.exceptions.OutOfMemoryError: Task was killed due to the node"), HOST_MEMORY),
    ],
)
def test_it_is_told_by_verdict_cause_and_the_end_of_the_log(found: RunRecord, expected: str | None) -> None:
    assert found.category == expected


def test_only_failures_are_listed() -> None:
    summary = summary_of("s", [run("passed"), run("failed"), run("skipped")])
    assert [failure["category"] for failure in summary["failures"]] == ["requirement"]
