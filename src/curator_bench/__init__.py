"""curator-bench: a pytest plugin in which benchmarks are test cases. `run_matrix` runs a matrix from Python."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from curator_bench.package import VERSION

if TYPE_CHECKING:
    from curator_bench.study import MatrixResults, run_matrix
    from curator_bench.values import Plan, RunRecord, Verdict

__version__ = VERSION
__all__ = ["MatrixResults", "Plan", "RunRecord", "Verdict", "run_matrix"]
_MODULES = {
    **dict.fromkeys(("MatrixResults", "run_matrix"), "curator_bench.study"),
    **dict.fromkeys(("Plan", "RunRecord", "Verdict"), "curator_bench.values"),
}


def __getattr__(name: str) -> Any:
    """Import a name of __all__ when it is first asked for: every start of pytest imports this package."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
