"""Settings and fixtures of the benchmarks in this folder. pytest loads this file automatically."""

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks. `pytest --markers` shows them."""
    config.addinivalue_line("markers", "starter: the first benchmarks, which `curator-bench init` wrote")


def pytest_report_header() -> str:
    """Show the load of the machine. On a busy machine, measurements are not reliable."""
    return f"load: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
