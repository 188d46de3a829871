"""The benchmarks that ship run, and what the overhead benchmarks assert by counting holds in every test run."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
OVERHEAD = ROOT / "benchmarks" / "overhead"


def run(*command: str | Path) -> str:
    outcome = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=ROOT, timeout=300, check=False
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout


def measure(tmp_path: Path, script: str, *arguments: str) -> dict[str, Any]:
    results = tmp_path / "results"
    run(OVERHEAD / script, *arguments, "--scratch", tmp_path / "scratch", "--benchmark-results-path", results)
    assert {file.name for file in results.iterdir()} == {"params.json", "metrics.json", "tasks.pkl"}
    metrics: dict[str, Any] = json.loads((results / "metrics.json").read_text())
    return metrics


def required_metrics(script: str) -> set[str]:
    entries = yaml.safe_load((OVERHEAD / "matrix.yaml").read_text())["entries"]
    return {one["metric"] for entry in entries if entry["script"] == script for one in entry["requirements"]}


@pytest.mark.slow
def test_the_demo_passes(tmp_path: Path) -> None:
    printed = run("-m", "pytest", "benchmarks", "-m", "demo", "-p", "no:cacheprovider", "--bench-results", tmp_path)
    assert "8 passed" in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("collection_time.py", ["--entries", "20", "--rounds", "1"]),
        ("growth_time.py", ["--entries", "10", "--factor", "2", "--rounds", "1"]),
        ("start_up_time.py", ["--pairs", "1"]),
    ],
)
def test_overhead_is_measured(tmp_path: Path, script: str, arguments: list[str]) -> None:
    metrics = measure(tmp_path, script, *arguments)
    assert required_metrics(script) <= metrics.keys()
    assert metrics.get("third_party_modules", 0) == 0


def test_a_project_without_a_matrix_imports_neither_the_matrix_room_nor_the_values(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_nothing(): pass")
    pytester.makeconftest(
        """
        import sys

        def pytest_unconfigure():
            print("ours:", sorted(name for name in sys.modules if name.startswith("curator_bench.")))
        """
    )
    result = pytester.run(sys.executable, "-m", "pytest", "-s")
    (line,) = [line for line in result.outlines if line.startswith("ours:")]
    for name in ("curator_bench.values", "curator_bench.matrix", "curator_bench.execution", "curator_bench.report"):
        assert f"'{name}'" not in line


def test_the_attention_suite_says_what_to_install_where_torch_is_missing(tmp_path: Path) -> None:
    """With torch it is run by `make test-attention`."""
    if importlib.util.find_spec("torch"):
        pytest.skip("torch is here")
    results = ("-p", "no:cacheprovider", "--bench-results", tmp_path)
    printed = run("-m", "pytest", "benchmarks/attention", "-k", "needle and tiny and 256", *results)
    assert "4 skipped" in printed
    assert f"needs torch, transformers, which {sys.executable} cannot import" in printed
    assert "pip install 'curator-bench[attention]'" in printed
