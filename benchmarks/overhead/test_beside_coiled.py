"""`curator-bench regressions` over the history of Coiled's suite for Dask, beside the script that looks for them there.

The script takes pandas and a checkout of coiled/benchmarks, which COILED_BENCHMARKS names. It looks at the newest runs
of three columns; ours at all runs of the same three.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import pytest

VARIABLE, SCRIPT = "COILED_BENCHMARKS", "detect_regressions.py"
TESTS, NIGHTS = 200, int(os.environ.get("OVERHEAD_COILED_NIGHTS", "500"))
ROUNDS = 5
COMMAND = [sys.executable, "-c", "from curator_bench.cli import main; main()"]


@pytest.fixture
def script() -> Path:
    found = Path(os.environ.get(VARIABLE, ""), SCRIPT).absolute()
    if not found.is_file():
        pytest.skip(f"{VARIABLE} names no checkout of coiled/benchmarks: there is no {found}")
    if missing := [module for module in ("pandas", "tabulate") if find_spec(module) is None]:
        pytest.skip(f"the script of coiled/benchmarks needs {' and '.join(missing)}")
    return found


@pytest.mark.overhead
def test_regressions_beside_coiled(script: Path, scratch_dir: Path, record_metric: Callable[..., None]) -> None:
    """In turns, each a process of its own, from its start until it is gone. What they find makes both end with 1."""
    from coiled_history import FILE_NAME, make

    make(scratch_dir / FILE_NAME, TESTS, NIGHTS)
    importing = [*COMMAND, "import", FILE_NAME, "--db", "imported.db"]
    subprocess.run(importing, cwd=scratch_dir, check=True, capture_output=True)
    took: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(ROUNDS):
        seconds, _ = time_of([sys.executable, str(script)], scratch_dir)
        took["theirs"].append(seconds)
        seconds, said = time_of([*COMMAND, "regressions", "--db", "imported.db", "--json"], scratch_dir)
        took["ours"].append(seconds)
    assert (scratch_dir / "regressions_summary.md").exists(), "their script has not come to its end"
    assert len(json.loads(said)) == TESTS // 10, "a tenth of the tests is slower since half of the time"
    for whose, seconds_of in took.items():
        record_metric(f"{whose}_s", median(seconds_of))
    assert median(took["ours"]) <= median(took["theirs"])


def time_of(command: list[str], folder: Path) -> tuple[float, str]:
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    return time.perf_counter() - began, done.stdout
