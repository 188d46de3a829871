"""A script to the contract: it leaves params.json, metrics.json and tasks.pkl in --benchmark-results-path."""

from __future__ import annotations

import argparse
import json
import pickle
import time
from pathlib import Path

import ray


@ray.remote
def count_words(files: list[str]) -> dict[str, float]:
    begin = time.perf_counter()
    texts = [json.loads(line)["text"] for file in files for line in Path(file).read_text().splitlines()]
    words = sum(len(text.split()) for text in texts)
    return {"documents": len(texts), "words": words, "seconds": time.perf_counter() - begin}


def run_benchmark(args: argparse.Namespace) -> tuple[dict[str, object], list[object]]:
    files = sorted(str(file) for file in args.input_path.glob("*.jsonl"))
    size = args.files_per_partition
    begin = time.perf_counter()
    counted = ray.get([count_words.remote(files[at : at + size]) for at in range(0, len(files), size)])
    seconds = time.perf_counter() - begin
    args.output_path.mkdir(parents=True)
    documents = sum(one["documents"] for one in counted)
    metrics: dict[str, object] = {
        "is_success": True,
        "time_taken_s": seconds,
        "num_documents_processed": documents,
        "num_words": sum(one["words"] for one in counted),
        "throughput_docs_per_sec": documents / seconds,
        "num_cpus": ray.cluster_resources()["CPU"],
    }
    measured = [(one["seconds"], one["documents"]) for one in counted]
    tasks: list[object] = [
        {"_stage_perf": [{"stage_name": "count", "process_time": seconds, "num_items_processed": items}]}
        for seconds, items in measured
    ]
    return metrics, tasks


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    parser.add_argument("--input-path", type=Path, required=True)
    parser.add_argument("--output-path", type=Path, required=True)
    parser.add_argument("--files-per-partition", type=int, default=2)
    args = parser.parse_args()
    ray.init()
    metrics, tasks = run_benchmark(args)
    args.benchmark_results_path.mkdir(parents=True, exist_ok=True)
    (args.benchmark_results_path / "params.json").write_text(json.dumps(vars(args), default=str))
    (args.benchmark_results_path / "metrics.json").write_text(json.dumps(metrics))
    (args.benchmark_results_path / "tasks.pkl").write_bytes(pickle.dumps(tasks))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
