"""What kind of failure a run is, as far as its verdict, its error and the end of its log tell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from curator_bench.values import Verdict

GPU_MEMORY = "out of memory on GPU"
HOST_MEMORY = "out of memory on host"
_FINE = (Verdict.PASSED, Verdict.SKIPPED)
_BY_VERDICT = {Verdict.FAILED: "requirement", Verdict.INTERRUPTED: "interrupted"}
# As torch, JAX, CuPy, RAPIDS, cuBLAS and the driver say it.
_GPU_IS_FULL = re.compile(
    r"(CUDA|HIP|XPU)( error:)? out of memory|OutOfMemoryError: (CUDA|HIP)|CUDA_ERROR_OUT_OF_MEMORY"
    r"|cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED|out_of_memory: CUDA|cupy\S*OutOfMemoryError"
    r"|RESOURCE_EXHAUSTED: Out of memory",
    re.IGNORECASE,
)
# As Python, C++, torch, Ray, the shell and the kernel say it.
_HOST_IS_FULL = re.compile(
    r"MemoryError\b|std::bad_alloc|not enough memory|can't allocate memory|Cannot allocate memory"
    r"|ray\.exceptions\.OutOfMemoryError|low on memory|ObjectStoreFullError|oom.?kill|Killed process"
    r"|for want of memory",
    re.IGNORECASE,
)


def category(run: Mapping[str, Any]) -> str | None:
    """None where nothing failed."""
    verdict = run["verdict"]
    if verdict in _FINE:
        return None
    if verdict in _BY_VERDICT:
        return _BY_VERDICT[verdict]
    said = "\n".join([str(run.get("error", "")), *map(str, run.get("log_tail") or ())])
    if _GPU_IS_FULL.search(said):
        return GPU_MEMORY
    if _HOST_IS_FULL.search(said):
        return HOST_MEMORY
    if verdict == Verdict.TIMEOUT:
        return "timeout"
    return str(run.get("cause") or "bench") if verdict == Verdict.ERROR else "script"


def failures(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every run that failed, in short, with its category."""
    kept = ("name", "uid", "verdict", "error", "directory", "log_path", "host")
    return [
        {**{key: run.get(key, "") for key in kept}, "category": found, "axes": run.get("axes") or {}}
        for run in runs
        if (found := category(run)) is not None
    ]
