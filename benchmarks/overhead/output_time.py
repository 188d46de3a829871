"""What it costs that a script writes 1 GiB to its standard output: time over `script > file`, memory of pytest.

The script times its own writing, so that neither pytest's start nor Python's counts. What was written before is on the
disk by then, so that no round pays for the one before it. What counts is the median of the rounds' ratios. Memory is
pytest's peak with that script over its peak with one that writes nothing.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from statistics import median

from pytest_process import make_project, parser_with, run, run_pytest, with_plugin, write_results

TALKATIVE = """\
import json, pathlib, sys, time

results = pathlib.Path(sys.argv[sys.argv.index("--benchmark-results-path") + 1])
block = (b"x" * 127 + b"\\n") * 8192
start = time.perf_counter()
for _ in range(int(sys.argv[1])):
    sys.stdout.buffer.write(block)
sys.stdout.buffer.flush()
results.joinpath("params.json").write_text("{}")
results.joinpath("metrics.json").write_text(json.dumps({"is_success": True, "writing_s": time.perf_counter() - start}))
"""
MATRIX = """\
entries: [{{name: talks, script: work.py, ray: false, args: "{blocks}"}}]
"""
GIBIBYTE_IN_BLOCKS = 1024


def in_pytest(project: Path, blocks: int) -> tuple[float, float]:
    """Seconds of writing, and pytest's peak memory in MB."""
    (project / "talks.yaml").write_text(MATRIX.format(blocks=blocks))
    os.sync()
    took = run_pytest(["-q", *with_plugin(), "--bench-session", "s", "talks.yaml"], project)
    folder = project / "results" / "s" / "talks"
    writing_s = json.loads((folder / "benchmark_results" / "metrics.json").read_text())["writing_s"]
    (folder / "logs" / "stdouterr.log").unlink()
    return writing_s, took.peak_memory_mb


def by_hand(project: Path) -> float:
    folder = project / "by_hand"
    folder.mkdir(exist_ok=True)
    os.sync()
    run([sys.executable, "work.py", str(GIBIBYTE_IN_BLOCKS), "--benchmark-results-path", str(folder)], project)
    (project / "output.txt").unlink()
    return float(json.loads((folder / "metrics.json").read_text())["writing_s"])


def main() -> None:
    parser = parser_with(__doc__)
    parser.add_argument("--rounds", type=int, required=True)
    options = parser.parse_args()
    project = make_project(options.scratch.resolve() / "project")
    (project / "work.py").write_text(TALKATIVE)
    by_hand(project)
    rounds = []
    for _ in range(options.rounds):
        (writing_s, loud_mb), (_, quiet_mb) = in_pytest(project, GIBIBYTE_IN_BLOCKS), in_pytest(project, 0)
        rounds.append((writing_s / by_hand(project), writing_s, loud_mb - quiet_mb))
    write_results(
        options,
        {
            "time_ratio": median(ratio for ratio, _, _ in rounds),
            "writing_s": median(seconds for _, seconds, _ in rounds),
            "extra_memory_mb": median(extra for _, _, extra in rounds),
        },
    )


if __name__ == "__main__":
    main()
