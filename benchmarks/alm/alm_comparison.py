"""The builtin engine on Ray beside its bare functions in a plain loop: the same manifest, one after the other.

The engine runs before and after the loop in every round, so that what else the machine does meets both of them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import mean, median
from typing import Any

from alm_results import Metrics, write_results

PIPELINE = Path(__file__).with_name("alm_pipeline.py")
EQUAL_FOR_ALL = ("total_builder_windows", "total_filtered_windows", "total_filtered_dur_s", "num_output_entries")


class Round:
    """What three runs of one round measured."""

    def __init__(self, before: Metrics, loop: Metrics, after: Metrics) -> None:
        self.runs = (before, loop, after)
        self.builtin_s = mean(float(run["time_taken_s"]) for run in (before, after))
        self.loop_s = float(loop["time_taken_s"])

    @property
    def speedup(self) -> float:
        """How many times the windows per second; both find the same windows, or there is nothing to compare."""
        return self.loop_s / self.builtin_s

    @property
    def agrees(self) -> bool:
        """Whether all three succeeded and found as much, also where what must be found is known."""
        is_right = all(run["is_success"] and not run.get("planted_entries_wrong") for run in self.runs)
        return is_right and len({tuple(run[name] for name in EQUAL_FOR_ALL) for run in self.runs}) == 1


def run_pipeline(options: argparse.Namespace, engine: str, executor: str, folder: Path) -> Metrics:
    """The metrics of one run in a process of its own."""
    words = ["--benchmark-results-path", folder, "--engine", engine, "--executor", executor]
    words += ["--input-manifest", options.input_manifest, "--repeat-factor", options.repeat_factor]
    words += ["--planted", options.planted] if options.planted else []
    words += ["--processes", options.processes]
    print(f"{engine} on {executor}", flush=True)
    ended = subprocess.run([sys.executable, PIPELINE, *map(str, words)], stdout=subprocess.DEVNULL, check=False)
    if ended.returncode:
        sys.exit(f"{engine} on {executor} ended with exit code {ended.returncode}")
    metrics: Metrics = json.loads((folder / "metrics.json").read_text())
    print(f"  {metrics['throughput_windows_per_sec']:,.0f} windows/s", flush=True)
    return metrics


def run_round(options: argparse.Namespace, number: int) -> Round:
    folder = options.benchmark_results_path / "runs"
    before = run_pipeline(options, "builtin", options.executor, folder / f"{number}_builtin_before")
    loop = run_pipeline(options, "plain_loop", "processes", folder / f"{number}_plain_loop")
    after = run_pipeline(options, "builtin", options.executor, folder / f"{number}_builtin_after")
    return Round(before, loop, after)


def metrics_of(rounds: list[Round]) -> dict[str, Any]:
    windows = rounds[0].runs[0]["total_builder_windows"]
    return {
        "is_success": all(one.agrees for one in rounds),
        "speedup": median(one.speedup for one in rounds),
        "total_builder_windows": windows,
        "total_filtered_windows": rounds[0].runs[0]["total_filtered_windows"],
        "builtin_windows_per_sec": windows / median(one.builtin_s for one in rounds),
        "loop_windows_per_sec": windows / median(one.loop_s for one in rounds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    parser.add_argument("--input-manifest", required=True)
    parser.add_argument("--executor", choices=["ray_data", "ray_actors"], default="ray_data")
    parser.add_argument("--repeat-factor", type=int, required=True)
    parser.add_argument("--planted", type=Path)
    parser.add_argument("--processes", type=int, default=2, help="of the plain loop")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    rounds = [run_round(options, number) for number in range(1, options.rounds + 1)]
    metrics = metrics_of(rounds)
    params = {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()}
    times = {"builtin": [one.builtin_s for one in rounds], "plain_loop": [one.loop_s for one in rounds]}
    tasks = [
        {"_stage_perf": [{"stage_name": engine, "process_time": seconds}]}
        for engine, all_seconds in times.items()
        for seconds in all_seconds
    ]
    write_results(options.benchmark_results_path, params, metrics, tasks)
    print(json.dumps(metrics, indent=2))


if __name__ == "__main__":
    main()
