"""What the benchmarks of Ray Data share."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def data(ray: Any) -> Any:
    """`ray.data` without progress bars; skipped where its extra is not installed."""
    pytest.importorskip("pyarrow", reason="Ray Data is not installed: pip install 'curator-bench[data]'")
    import ray.data

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    return ray.data
