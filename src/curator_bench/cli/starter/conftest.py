"""What the benchmarks of this folder share. pytest reads it by itself; fixtures of yours go here."""

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Marks have a meaning; `pytest --markers` shows it."""
    config.addinivalue_line("markers", "starter: the first benchmarks, which `curator-bench init` wrote")


def pytest_report_header() -> str:
    """Figures mean little on a machine that is busy with something else."""
    return f"load: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
