"""A nightly matrix of the shape NeMo Curator keeps, and scripts to its contract, run unmodified under the plugin."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import warm

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "alm"))

import make_manifest  # noqa: E402
from alm_stand_ins import make_stand_ins  # noqa: E402

OVERLAY = ROOT / "benchmarks" / "curator" / "checkout.yaml"
NIGHTLY = Path("benchmarking", "nightly-benchmark.yaml")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout, and the data its nightly machine has: two files of stories, a manifest.

    Only here does the matrix get its name, so that nobody collects it in this repository.
    """
    folder = tmp_path / "Curator"
    shutil.copytree(Path(__file__).parent / "data" / "checkout", folder)
    (folder / "benchmarking" / "nightly.yaml").rename(folder / NIGHTLY)
    stories = tmp_path / "datasets" / "tiny_stories" / "jsonl"
    stories.mkdir(parents=True)
    for number in range(2):
        lines = [json.dumps({"text": "once upon a"}), json.dumps({"text": "time there was"})]
        (stories / f"{number}.jsonl").write_text("\n".join(lines) + "\n")
    fixtures = folder / "tests" / "fixtures" / "audio" / "alm"
    make_manifest.write_manifest(fixtures, count=2, seed=1)
    (fixtures / "manifest.jsonl").rename(fixtures / "sample_input.jsonl")
    return folder


def run_nightly(checkout: Path, *words: object, **env: str) -> tuple[subprocess.CompletedProcess[str], Path]:
    """With what a machine of one's own has instead of the nightly one's in a file laid over it."""
    results = checkout.parent / "results"
    machine = checkout.parent / "machine.yaml"
    paths = {"name": "datasets_path", "host_path": str(checkout.parent / "datasets")}
    machine.write_text(json.dumps({"results_dir": str(results), "paths": [paths]}))
    words = ("--bench-curator-repo", checkout, "--bench-session", "night", "-p", "no:cacheprovider", *words)
    arguments = map(str, (checkout / NIGHTLY, "--bench-matrix", machine, *words))
    outcome = warm.run("pytest", *arguments, cwd=checkout, env={**os.environ, **env}, within_s=600)
    return outcome, results / "night"


def result_of(entry: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((entry / "results.json").read_text())
    return result


@pytest.mark.slow
def test_a_nightly_matrix_and_its_scripts_run_as_they_are(checkout: Path) -> None:
    outcome, session = run_nightly(checkout, "-k", "word_count")
    assert "1 failed, 1 passed" in outcome.stdout, outcome.stdout + outcome.stderr
    counted, too_few = result_of(session / "word_count"), result_of(session / "word_count_too_few")
    assert (counted["verdict"], too_few["verdict"]) == ("passed", "failed")
    assert counted["metrics"]["num_cpus"] == 2
    assert counted["metrics"]["task_count_num_items_processed_sum"] == 4
    assert too_few["metrics"]["task_count_num_items_processed_sum"] == 4
    assert counted["params"]["input_path"].endswith("datasets/tiny_stories/jsonl")
    assert (session / "word_count" / "metrics.json").exists()
    assert not (session / "word_count" / "scratch").exists()
    assert not (session / "word_count_elsewhere").exists()


@pytest.mark.skipif(
    importlib.util.find_spec("nemo_curator") is None, reason="nemo_curator is not installed: make test-curator"
)
def test_a_nightly_entry_of_nemo_curator_runs_as_it_is(checkout: Path, tmp_path: Path) -> None:
    make_stand_ins(tmp_path / "stand_ins")
    words = ["--bench-matrix", OVERLAY, "-k", "alm_pipeline_xenna"]
    outcome, session = run_nightly(checkout, *words, PYTHONPATH=str(tmp_path / "stand_ins"))
    assert "1 passed" in outcome.stdout, outcome.stdout + outcome.stderr
    metrics = result_of(session / "alm_pipeline_xenna")["metrics"]
    assert metrics["num_output_entries"] == 6
    assert metrics["total_builder_windows"] > metrics["total_filtered_windows"] > 0
    assert metrics["task_alm_data_builder_process_time_sum"] > 0
