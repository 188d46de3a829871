"""How fast this machine sorts and hashes: a script as curator-bench runs them.

It takes --benchmark-results-path and leaves params.json, metrics.json and tasks.pkl there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

MEGABYTE = 1_000_000
Metrics = dict[str, Any]


def timed(work: Callable[[], object], passes: int) -> list[float]:
    """The seconds each pass over the same work took, after one that is not counted."""
    work()
    seconds = []
    for _ in range(passes):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return seconds


def measure_sort(algorithm: str, size: int, passes: int) -> tuple[Metrics, list[float]]:
    """Sorts the numbers from 0 to `size` out of a shuffled order that is the same every time."""
    shuffled = np.random.default_rng(seed=1).permutation(size)
    as_list = shuffled.tolist()
    works: dict[str, Callable[[], Any]] = {"python": lambda: sorted(as_list), "numpy": lambda: np.sort(shuffled)}
    work = works[algorithm]
    answer = np.asarray(work())
    misplaced = int(np.count_nonzero(answer != np.arange(size)))
    seconds = timed(work, passes)
    return {
        "is_success": misplaced == 0,
        "sorted_numbers": len(answer),
        "misplaced_numbers": misplaced,
        "numbers_per_s": size / median(seconds),
    }, seconds


def measure_hash(algorithm: str, size: int, passes: int) -> tuple[Metrics, list[float]]:
    """Hashes `size` megabytes that are in memory already."""
    data = bytes(range(250)) * (size * MEGABYTE // 250)
    seconds = timed(lambda: hashlib.new(algorithm, data).digest(), passes)
    return {
        "is_success": True,
        "digest_of_abc": hashlib.new(algorithm, b"abc").hexdigest(),
        "mb_per_s": len(data) / MEGABYTE / median(seconds),
    }, seconds


def write_results(folder: Path, params: Metrics, metrics: Metrics, seconds: list[float]) -> None:
    """The three files of the script contract. Each pass is a task, whose time is that of its one stage."""
    tasks = [{"_stage_perf": [{"stage_name": params["work"], "process_time": one}]} for one in seconds]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "params.json").write_text(json.dumps(params, indent=2))
    (folder / "metrics.json").write_text(json.dumps({**metrics, "time_taken_s": sum(seconds)}, indent=2))
    (folder / "tasks.pkl").write_bytes(pickle.dumps(tasks))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", choices=["sort", "hash"])
    parser.add_argument("--algorithm", required=True, help="sort: python, numpy; hash: sha256, blake2b")
    parser.add_argument("--size", type=int, required=True, help="sort: how many numbers; hash: megabytes")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    options = vars(parser.parse_args())
    folder = options.pop("benchmark_results_path")
    measure = measure_sort if options["work"] == "sort" else measure_hash
    metrics, seconds = measure(options["algorithm"], options["size"], options["passes"])
    write_results(folder, options, metrics, seconds)
    print(json.dumps(metrics, indent=2))


if __name__ == "__main__":
    main()
