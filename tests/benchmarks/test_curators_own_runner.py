"""NeMo Curator's own runner and the plugin run the same matrix with the same result: parameters, metrics, requirements.

It needs a checkout: `make test-curator CURATOR_REPO=path`. Scripts and runner of the checkout are taken as they are.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import warm
import yaml

from curator_bench.measure.processes import Mark, end_processes, identify
from curator_bench.values.runs import MACHINE

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "alm"))

from alm_stand_ins import make_stand_ins  # noqa: E402

REPO = os.environ.get("CURATOR_REPO", "")
NEEDED = ("nemo_curator", "git", "rich")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]

pytestmark = pytest.mark.skipif(not REPO, reason="CURATOR_REPO names no checkout of NeMo Curator")
needs_its_runner = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}: make test-curator")
NIGHTLY = Path(REPO).resolve() / "benchmarking" / "nightly-benchmark.yaml"

RECORDINGS = "tests/fixtures/audio/alm"

MATRIX = """
paths:
  - {{name: results_path, host_path: "{folder}/results", container_path: "{folder}/results"}}
  - {{name: documents, host_path: "{folder}/documents", container_path: "{folder}/documents"}}
datasets: [{{name: documents, formats: [{{type: jsonl, path: "{{documents}}"}}]}}]
default_timeout_s: 1200
object_store_size: 200000000
ray: {{num_cpus: 4, num_gpus: 0, enable_object_spilling: false}}
entries:
  - name: all_met
    script: alm_pipeline_benchmark.py
    args: >-
      --benchmark-results-path={{session_entry_dir}} --executor=ray_data
      --input-manifest={{curator_repo_dir}}/tests/fixtures/audio/alm/sample_input.jsonl
    requirements:
      - {{metric: total_builder_windows, min_value: 1, max_value: 100000}}
      - {{metric: num_output_entries, exact_value: 5}}
      - {{metric: is_success, exact_value: true}}
  - name: some_missed
    script: score_filter_benchmark.py
    timeout_s: 900
    ray: {{num_cpus: 3}}
    args: >-
      --benchmark-results-path={{session_entry_dir}} --output-path={{session_entry_dir}}/scratch/output
      --executor=ray_data --input-path={{dataset:documents,jsonl}} --yaml-config={folder}/filter.yaml
    requirements:
      - {{metric: num_documents_processed, exact_value: 60}}
      - {{metric: num_kept_documents, min_value: 50}}
      - {{metric: task_jsonl_reader_num_items_processed_sum, max_value: 1}}
      - {{metric: not_measured, max_value: 1}}
  - name: refused
    script: alm_pipeline_benchmark.py
    args: --benchmark-results-path={{session_entry_dir}} --no-such-option
    requirements: [{{metric: total_builder_windows, min_value: 1}}]
"""
FILTER = """
defaults: [_self_, {override hydra/job_logging: none}, {override hydra/hydra_logging: none}]
hydra: {run: {dir: .}, output_subdir: null}
input_path: ???
output_path: ???
stages:
  - {_target_: nemo_curator.stages.text.io.reader.JsonlReader, file_paths: "${input_path}", files_per_partition: 1}
  - _target_: nemo_curator.stages.text.filters.score_filter.ScoreFilter
    filter_obj:
      {_target_: nemo_curator.stages.text.filters.heuristic.string.WordCountFilter, min_words: 11, max_words: 1000}
    text_field: text
  - {_target_: nemo_curator.stages.text.io.writer.JsonlWriter, path: "${output_path}"}
"""
WITHOUT_DRIVER = """
def new_query(*words, **options):
    return []
"""
"""The library of the runner that asks the NVIDIA driver, without which no entry runs there."""
RAY = """#!/usr/bin/env bash
case $1 in
    status)
        newest=$(ls -t "{folder}"/results/theirs/*/logs/ray.log* | head -n 1)
        grep -E "runtime started|Local node IP|will be killed" "$newest" | tail -n 1 | grep "runtime started"
        ;;
    start) "{ray}" "$@" || "{ray}" "$@" || "{ray}" "$@" ;;
    *) exec "{ray}" "$@" ;;
esac
"""
"""Program that the runner calls in place of Ray's. On a busy machine Ray's own does not start its raylet within thirty
seconds, after which the runner waits for minutes; and ten seconds for `ray status` are too few to import Ray."""
STARTS_A_SESSION = """
import subprocess
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""
WITHIN_S = 1800
ENTRIES = ("all_met", "some_missed", "refused")
OURS_ALONE = {
    *("exec_time_s", "exit_code", "cpu_time_s", "peak_memory_bytes", "average_memory_bytes"),
    *("compute_time_s", "serializing_time_s", "transfer_time_s", "ray_tasks", "ray_tasks_without_times"),
    *("disk_spill_time_s", "spilled_bytes", "restored_bytes", "peak_object_store_bytes"),
    *("ray_retries", "ray_failures"),
}
"""Metrics that the plugin adds, beside those of the machine. The runner has the first two beside its metrics."""
DIFFERS = re.compile(r"time|throughput|duration|idle|memory|bytes_.*_per|_std$|_s$|_s_(sum|mean)$|started|ended")
"""Names of what no two runs have in common."""


def test_the_nightly_matrix_is_collected_with_all_of_its_variables_set(tmp_path: Path) -> None:
    """Also with the file that prepares data laid over it, and strictly."""
    text = NIGHTLY.read_text()
    variables = dict.fromkeys(re.findall(r"\$\{(\w+)\}", text), "set") | {"SLACK_BOT_TOKEN": "set"}
    enabled = [entry["name"] for entry in yaml.safe_load(text)["entries"] if entry.get("enabled", True)]
    setup = NIGHTLY.with_name("nightly-data-setup.yaml")
    overlay: list[str | Path] = ["--bench-matrix", setup] if setup.exists() else []
    words = [NIGHTLY, *overlay, "--collect-only", "-q", "--bench-strict", "-p", "no:cacheprovider"]
    outcome = warm.run("pytest", *words, cwd=tmp_path, env={**os.environ, **variables})
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert re.findall(r"::(\w+)$", outcome.stdout, re.MULTILINE) == enabled


@dataclass(frozen=True)
class Both:
    """What each left in its results.json, by entry; and in params.json, under `params.json`."""

    theirs: Mapping[str, dict[str, Any]]
    ours: Mapping[str, dict[str, Any]]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    folder = tmp_path_factory.mktemp("both")
    (folder / "documents").mkdir()
    for number in range(2):
        lines = [json.dumps({"text": "word " * words}) for words in range(1, 31)]
        (folder / "documents" / f"{number}.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "results").mkdir()
    (folder / "filter.yaml").write_text(FILTER)
    (folder / "matrix.yaml").write_text(MATRIX.format(folder=folder))
    (folder / "stand_ins").mkdir()
    make_stand_ins(folder / "stand_ins")
    (folder / "programs").mkdir()
    (folder / "programs" / "ray").write_text(RAY.format(ray=Path(sys.executable).with_name("ray"), folder=folder))
    (folder / "programs" / "ray").chmod(0o755)
    if shutil.which("nvidia-smi") is None:
        (folder / "stand_ins" / "gpustat.py").write_text(WITHOUT_DRIVER)
    # Its runner splits a command after the paths are filled in, so a path with a blank would be two words.
    checkout = folder / "checkout"
    benchmarking = checkout / "benchmarking"
    for part in ("benchmarking", RECORDINGS):
        shutil.copytree(NIGHTLY.parent.parent / part, checkout / part, ignore=shutil.ignore_patterns("__pycache__"))
    call(folder, benchmarking / "run.py", "--config", "matrix.yaml", "--session-name", "theirs")
    scripts = json.dumps({"script_base_dir": str(benchmarking / "scripts")})
    (folder / "scripts.yaml").write_text(scripts)
    ours = ("--bench-matrix", "scripts.yaml", "--bench-session", "ours", f"--bench-curator-repo={checkout}")
    call(folder, "-m", "pytest", "matrix.yaml", "--benchmark", *ours, "-p", "no:cacheprovider")
    return Both(*({name: left(folder / "results" / side / name) for name in ENTRIES} for side in ("theirs", "ours")))


def call(folder: Path, *words: object, within_s: float = WITHIN_S) -> None:
    """Both exit with 1, as two of the three entries do not pass. The runner finds `python` and `ray` in the path.

    Ray starts in a session of its own and survives the runner's death: whatever carries our mark ends with the call.
    """
    mark = Mark(secrets.token_hex(16), "COMPARED_WITH_CURATORS_RUNNER")
    own = {"RAY_gcs_server_request_timeout_seconds": "600", **own_cluster(folder)}
    own["PATH"] = _path(folder / "programs", Path(sys.executable).parent, os.environ["PATH"])
    own["PYTHONPATH"] = _path(folder / "stand_ins", os.environ.get("PYTHONPATH"))
    printed = folder / f"printed_by_{Path(str(words[0])).stem.strip('-')}.txt"
    with printed.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, *map(str, words)],
            cwd=folder,
            env={**without_recompiling(os.environ), **own, **mark.environment()},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            code = process.wait(timeout=within_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            left = end_processes(mark, [process.pid], grace_s=0)
            process.wait()
    assert code == 1, f"exit code {code} (None: not within {within_s} s):\n{printed.read_text()[-10_000:]}"
    assert not left


def test_what_runs_when_its_time_is_over_ends_with_all_that_it_started(tmp_path: Path) -> None:
    """As Ray does, which has a session of its own and outlives the runner."""
    with pytest.raises(AssertionError, match="exit code None"):
        call(tmp_path, "-c", STARTS_A_SESSION, within_s=3)
    (printed,) = tmp_path.glob("printed_by_*")
    assert identify(int(printed.read_text())) is None


def without_recompiling(variables: Mapping[str, str]) -> dict[str, str]:
    """NeMo Curator is installed without bytecode: if none is written, each worker compiles anew what it imports."""
    return {name: value for name, value in variables.items() if name != "PYTHONDONTWRITEBYTECODE"}


def own_cluster(folder: Path) -> dict[str, str]:
    """A token that nobody else has, which the runner's Ray would otherwise leave in the tester's home."""
    return {"HOME": str(folder), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


def _path(*folders: str | Path | None) -> str:
    return os.pathsep.join(str(folder) for folder in folders if folder)


def left(entry: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((entry / "results.json").read_text())
    return {**result, "params.json": json.loads((entry / "params.json").read_text())}


def in_one_session(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as both write them: sessions have names of their own."""
    replaced = json.dumps(values).replace("/results/theirs/", "/results/ours/")
    result: dict[str, Any] = json.loads(replaced)
    return result


def without_measured(metrics: Mapping[str, Any]) -> dict[str, Any]:
    return {name: plain(name, value) for name, value in in_one_session(metrics).items()}


def plain(name: str, value: Any) -> Any:
    if DIFFERS.search(name) and isinstance(value, (int, float)) and not isinstance(value, bool):
        return "a number" if math.isfinite(value) else value
    return value


def missed(ours: Mapping[str, Any]) -> Iterator[str]:
    for requirement in ours["requirements"]:
        if not requirement["met"]:
            yield requirement["metric"]


@needs_its_runner
@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
def test_the_parameters_are_the_same(both: Both, entry: str) -> None:
    for where in ("params", "params.json"):
        assert in_one_session(both.ours[entry][where]) == in_one_session(both.theirs[entry][where])


@needs_its_runner
@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
def test_the_metrics_are_the_same(both: Both, entry: str) -> None:
    metrics = both.ours[entry]["metrics"].items()
    ours = {name: value for name, value in metrics if name not in OURS_ALONE and not name.startswith(MACHINE)}
    assert without_measured(ours) == without_measured(both.theirs[entry]["metrics"])
    assert both.ours[entry]["exit_code"] == both.theirs[entry]["exit_code"]


@needs_its_runner
@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
def test_the_verdicts_are_the_same(both: Both, entry: str) -> None:
    ours, theirs = both.ours[entry], both.theirs[entry]
    assert (ours["verdict"] == "passed") == theirs["success"]
    assert (ours["verdict"] == "timeout") == theirs["timed_out"]
    if ours["exit_code"] == 0:
        assert set(missed(ours)) == set(theirs["requirements_not_met"])


@needs_its_runner
@pytest.mark.slow
def test_the_entries_end_in_three_ways(both: Both) -> None:
    assert [both.ours[entry]["verdict"] for entry in ENTRIES] == ["passed", "failed", "crashed"]
    assert set(missed(both.ours["some_missed"])) == {
        *("num_kept_documents", "task_jsonl_reader_num_items_processed_sum", "not_measured")
    }
