"""The category of a failure, as far as a run's verdict, its error and the end of its log tell."""

from __future__ import annotations

import re
from collections.abc import Iterable

GPU_MEMORY = "out of memory on GPU"
HOST_MEMORY = "out of memory on host"
_FINE = ("passed", "skipped")
_BY_VERDICT = {"failed": "requirement", "interrupted": "interrupted"}
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
    r"|for want of memory|because memory ran out",
    re.IGNORECASE,
)


def failure_category(verdict: str, error: str, log_tail: Iterable[str], cause: str | None) -> str | None:
    """`script`, `requirement`, `timeout`, …; None for a run that did not fail."""
    if verdict in _FINE:
        return None
    if verdict in _BY_VERDICT:
        return _BY_VERDICT[verdict]
    said = "\n".join([error, *log_tail])
    if _GPU_IS_FULL.search(said):
        return GPU_MEMORY
    if _HOST_IS_FULL.search(said):
        return HOST_MEMORY
    if verdict == "timeout":
        return "timeout"
    return (cause or "bench") if verdict == "error" else "script"
