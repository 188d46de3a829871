"""The benchmark of the dashboard runs, on a history that is short."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from real_browser import found_chromium

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "benchmarks" / "overhead"


def test_what_the_dashboard_costs_is_measured(tmp_path: Path) -> None:
    found_chromium()
    subprocess.run([sys.executable, FOLDER / "recorded_runs.py", "--runs", "200", "--out", tmp_path], check=True)
    words: list[str | Path] = ["--database", tmp_path / "benchmark.db", "--scratch", tmp_path / "scratch"]
    words += ["--times", "1"]
    results: list[str | Path] = ["--benchmark-results-path", tmp_path / "results"]
    subprocess.run([sys.executable, FOLDER / "report_time.py", *words, *results], check=True, timeout=240)
    metrics = json.loads((tmp_path / "results" / "metrics.json").read_text())
    (entry,) = yaml.safe_load((FOLDER / "report_matrix.yaml").read_text())["entries"]
    assert {requirement["metric"] for requirement in entry["requirements"]} <= metrics.keys()
    assert metrics["runs"] == 200
    assert all(metrics[requirement["metric"]] > 0 for requirement in entry["requirements"])
