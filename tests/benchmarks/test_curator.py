"""The suite `curator` loads anywhere, and says of what it cannot run here what is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from curator_bench.matrix import LoadRequest, command_of, load

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "benchmarks" / "curator"
EXECUTORS = {"xenna", "ray_data", "ray_actors"}


def test_every_operation_a_cpu_can_do_is_run_on_every_executor() -> None:
    matrix = load(LoadRequest(files=(SUITE / "matrix.yaml",), variables={}))
    assert not matrix.warnings
    assert not [entry for entry in matrix.entries if command_of(entry, {}).problems]
    assert all("nemo_curator" in entry.requires and entry.marks == ("curator",) for entry in matrix.entries)
    for name in ("curator_removal", "curator_text[score_filter", "curator_text[modifier", "curator_alm"):
        words = [command_of(entry, {}).args for entry in matrix.entries if entry.id.startswith(name)]
        assert {args[args.index("--executor") + 1] for args in words} == EXECUTORS


def test_xenna_gets_the_cpus_and_the_dashboard_it_needs_on_a_machine_of_any_size() -> None:
    matrix = load(LoadRequest(files=(SUITE / "matrix.yaml",), variables={}))
    for entry in matrix.entries:
        assert entry.ray is not None
        if "xenna" in entry.id:
            assert (entry.ray.num_cpus, entry.ray.include_dashboard) == (8, True)
        else:
            assert not entry.ray.include_dashboard


def test_what_needs_a_gpu_is_skipped_with_the_reason(tmp_path: Path) -> None:
    words: list[str | Path] = ["-k", "identification", "--bench-results", tmp_path, "-p", "no:cacheprovider"]
    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", SUITE, *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=True,
    )
    assert "2 skipped" in outcome.stdout
    assert "cudf, cuml, which" in outcome.stdout
