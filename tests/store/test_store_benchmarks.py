"""The benchmarks of what the database costs run, and what they count holds in every test run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.slow

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


def test_what_much_history_costs_is_measured_on_databases_that_are_made_for_it(tmp_path: Path) -> None:
    small = {"OVERHEAD_HISTORY_RUNS": "2000", "OVERHEAD_MERGED_RUNS": "500", "DATASETS_DIR": str(tmp_path / "data")}
    words = ["-q", "-p", "no:cacheprovider", str(FOLDER / "store_matrix.yaml"), "-k", "history or merge"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *words, "--bench-results", tmp_path, "--bench-session", "small"],
        env={**os.environ, **small},
        cwd=FOLDER.parents[1],
        check=False,  # how long it takes is for the benchmark to judge, on a machine that does nothing else
        capture_output=True,
        timeout=300,
    )
    history, merge = (
        json.loads((tmp_path / "small" / name / "results.json").read_text())["metrics"] for name in ("history", "merge")
    )
    assert (history["runs"], history["fewest_values"]) == (2000, 4)
    assert history["query_ms"] > 0
    assert (merge["runs"], merge["is_complete"]) == (500, True)
    assert min(merge["merge_s"], merge["merge_memory_mb"]) > 0
