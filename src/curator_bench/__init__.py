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
    from curator_bench.cluster.model import Cluster, ClusterProvider, ClusterRequest
    from curator_bench.execution.profilers.profiler import ProfiledRun, Profiler
    from curator_bench.measure.sampler import SampledRun, Sampler
    from curator_bench.sinks.sink import Sink, SinkConfig
    from curator_bench.stages import stage
    from curator_bench.study import MatrixResults, run_matrix
    from curator_bench.values import (
        Check,
        OpenFinding,
        Plan,
        Profile,
        Run,
        RunRecord,
        Session,
        Stage,
        Subject,
        Summary,
        Verdict,
    )

__version__ = VERSION
__all__ = [
    "Check",
    "Cluster",
    "ClusterProvider",
    "ClusterRequest",
    "MatrixResults",
    "OpenFinding",
    "Plan",
    "Profile",
    "ProfiledRun",
    "Profiler",
    "Run",
    "RunRecord",
    "SampledRun",
    "Sampler",
    "Session",
    "Sink",
    "SinkConfig",
    "Stage",
    "Subject",
    "Summary",
    "Verdict",
    "run_matrix",
    "stage",
]
_MODULES = {
    **dict.fromkeys(("Cluster", "ClusterProvider", "ClusterRequest"), "curator_bench.cluster.model"),
    **dict.fromkeys(("MatrixResults", "run_matrix"), "curator_bench.study"),
    **dict.fromkeys(("ProfiledRun", "Profiler"), "curator_bench.execution.profilers.profiler"),
    **dict.fromkeys(("SampledRun", "Sampler"), "curator_bench.measure.sampler"),
    **dict.fromkeys(("Sink", "SinkConfig"), "curator_bench.sinks.sink"),
    "stage": "curator_bench.stages",
}
"""The modules of those that are not in values."""


def __getattr__(name: str) -> Any:
    """Import a name of __all__ on first use, because every start of pytest imports this package."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES.get(name, "curator_bench.values")), name)


class _AsInstalled:
    """Import our modules as installed, without the rewriting of assertions that pytest does to plugins.

    Where pytest cannot store the result (in a container, or an installation of root) it rewrites them at every start.
    Before Python 3.11.5, two threads that parse at the same time also break each other.
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith(f"{__name__}.") else None


if "_pytest.assertion.rewrite" in sys.modules:
    sys.meta_path.insert(0, _AsInstalled)
