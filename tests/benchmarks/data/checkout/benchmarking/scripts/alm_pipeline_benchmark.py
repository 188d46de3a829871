"""A script to the contract that drives NeMo Curator: its ALM stages, and its task objects in tasks.pkl."""

from __future__ import annotations

import argparse
import json
import pickle
import time
from pathlib import Path
from typing import Any

from nemo_curator.backends.ray_data import RayDataExecutor
from nemo_curator.backends.xenna import XennaExecutor
from nemo_curator.pipeline import Pipeline
from nemo_curator.stages.audio.alm import ALMDataBuilderStage, ALMDataOverlapStage
from nemo_curator.tasks import AudioTask

EXECUTORS = {"xenna": XennaExecutor, "ray_data": RayDataExecutor}


def initial_tasks(args: argparse.Namespace) -> list[Any]:
    lines = Path(args.input_manifest).read_text().splitlines()
    return [AudioTask(data=json.loads(line)) for line in lines for _ in range(args.repeat_factor)]


def run_benchmark(args: argparse.Namespace) -> tuple[dict[str, object], list[Any]]:
    stages = [
        ALMDataBuilderStage(target_window_duration=args.target_window_duration, tolerance=args.tolerance),
        ALMDataOverlapStage(overlap_percentage=50, target_duration=args.target_window_duration),
    ]
    begin = time.perf_counter()
    tasks = Pipeline(name="alm", stages=stages).run(EXECUTORS[args.executor](), initial_tasks=initial_tasks(args))
    tasks = tasks or []
    metrics: dict[str, object] = {
        "is_success": bool(tasks),
        "time_taken_s": time.perf_counter() - begin,
        "num_output_entries": len(tasks),
        "total_builder_windows": sum(len(task.data["windows"]) for task in tasks),
        "total_filtered_windows": sum(len(task.data["filtered_windows"]) for task in tasks),
    }
    return metrics, tasks


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    parser.add_argument("--input-manifest", required=True)
    parser.add_argument("--executor", choices=sorted(EXECUTORS), default="xenna")
    parser.add_argument("--target-window-duration", type=float, default=120.0)
    parser.add_argument("--tolerance", type=float, default=0.1)
    parser.add_argument("--repeat-factor", type=int, default=1)
    args = parser.parse_args()
    metrics, tasks = run_benchmark(args)
    args.benchmark_results_path.mkdir(parents=True, exist_ok=True)
    (args.benchmark_results_path / "params.json").write_text(json.dumps(vars(args), default=str))
    (args.benchmark_results_path / "metrics.json").write_text(json.dumps(metrics))
    (args.benchmark_results_path / "tasks.pkl").write_bytes(pickle.dumps(tasks))
    return 0 if metrics["is_success"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
