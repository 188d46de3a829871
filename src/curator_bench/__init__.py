"""curator-bench: a pytest plugin in which benchmarks are test cases. `run_matrix` runs a matrix from Python."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from curator_bench.study import MatrixResults, MatrixRun, run_matrix

__version__ = "0.1.0"
__all__ = ["MatrixResults", "MatrixRun", "run_matrix"]


def __getattr__(name: str) -> Any:
    """What stands in __all__ is imported when it is first asked for: every pytest start imports this package."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("curator_bench.study"), name)
