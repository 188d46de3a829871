"""Settings shared by the benchmarks in this folder. pytest reads this file by itself; put your fixtures here."""

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks. `pytest --markers` shows them."""
    config.addinivalue_line("markers", "starter: the first benchmarks, which `curator-bench init` wrote")


def pytest_report_header() -> str:
    """Show the load, because measurements on a busy machine mean little."""
    return f"load: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
