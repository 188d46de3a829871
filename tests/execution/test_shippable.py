"""What is sent to other machines runs there with the standard library, psutil and ray."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NOT_THERE = ("sqlalchemy", "alembic", "pydantic", "pytest", "_pytest", "yaml", "numpy", "click", "rich", "slack_sdk")
RUNS_AN_ENTRY = """
import sys
from pathlib import Path

for name in sys.argv[2].split(","):
    sys.modules[name] = None  # importing it fails

from curator_bench.fleet import driver_program, fleet, node_task
from curator_bench.execution.run import run_entry
from curator_bench.values import Plan, RaySettings

top = Path(sys.argv[1])
script = top / "script.py"
script.write_text(
    "import pathlib, sys; out = pathlib.Path(sys.argv[-1]);"
    "(out / 'params.json').write_text('{}'); (out / 'metrics.json').write_text('{}')"
)
ray = RaySettings(num_cpus=1, num_gpus=0, object_store_size=100_000_000)
plan = Plan("one", "s", str(top / "s"), str(top / "s" / "one"), sys.executable, str(script), (), str(top), ray=ray)
result = run_entry(plan)
assert result.verdict == "passed", result
"""


def test_an_entry_runs_where_nothing_else_is_installed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUNS_AN_ENTRY, str(tmp_path), ",".join(NOT_THERE)]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert outcome.returncode == 0, outcome.stderr
