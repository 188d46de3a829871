"""The benchmarks of what the database costs run, and what they count holds in every test run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "benchmarks" / "overhead"


@pytest.mark.parametrize("entry", yaml.safe_load((FOLDER / "store_matrix.yaml").read_text())["entries"][:2])
def test_what_the_database_costs_is_measured(tmp_path: Path, entry: dict[str, Any]) -> None:
    results = tmp_path / "results"
    words: list[str | Path] = ["--pairs", "2", "--scratch", tmp_path / "scratch", "--benchmark-results-path", results]
    subprocess.run([sys.executable, FOLDER / entry["script"], *words], check=True, capture_output=True, timeout=120)
    metrics = json.loads((results / "metrics.json").read_text())
    assert {requirement["metric"] for requirement in entry["requirements"]} <= metrics.keys()
    assert metrics.get("alembic_modules", 0) == 0
    assert metrics.get("rows_by_recorder", 2) == metrics.get("rows_by_hand", 2) == 2
