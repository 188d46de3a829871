"""curator-bench: a pytest plugin in which benchmarks are test cases. `run_matrix` runs a matrix from Python."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
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


class _AsInstalled:
    """Finds our modules before pytest does, which would parse and rewrite each of them for its assertions.

    Where it cannot keep the result (a container, an installation of root's) it would do so at every start; and before
    Python 3.11.5 two threads that parse at the same time break each other.
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith(f"{__name__}.") else None


if "_pytest.assertion.rewrite" in sys.modules:
    sys.meta_path.insert(0, _AsInstalled)
