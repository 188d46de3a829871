"""Count words in several processes. A benchmark is an ordinary program that takes options and writes three files.

By hand: `curator-bench command matrix.yaml 'word_count[2]'` prints its command line.
"""

import argparse
import json
import pickle
import random
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

WORDS_PER_DOCUMENT = 200


def documents(count: int) -> list[str]:
    """Return the same texts in each run, so that runs can be compared."""
    draw = random.Random(1)
    words = [f"word{number}" for number in range(1000)]
    return [" ".join(draw.choices(words, k=WORDS_PER_DOCUMENT)) for _ in range(count)]


def count_words(texts: list[str]) -> Counter[str]:
    return Counter(word for text in texts for word in text.split())


def count_in_processes(parts: list[list[str]]) -> Counter[str]:
    with ProcessPoolExecutor(len(parts)) as processes:
        return sum(processes.map(count_words, parts), Counter())


def count_with_ray(parts: list[list[str]]) -> Counter[str]:
    import ray

    ray.init(log_to_driver=False)  # connects to the cluster that was started for this run
    count = ray.remote(count_words)
    return sum(ray.get([count.remote(part) for part in parts]), Counter())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, required=True)
    parser.add_argument("--tasks", type=int, required=True)
    parser.add_argument("--with-ray", action="store_true")
    parser.add_argument("--benchmark-results-path", type=Path, required=True)  # every script gets this one
    options = parser.parse_args()

    texts = documents(options.documents)
    parts = [texts[first :: options.tasks] for first in range(options.tasks)]
    start = time.perf_counter()
    counted = count_with_ray(parts) if options.with_ray else count_in_processes(parts)
    seconds = time.perf_counter() - start

    params = {"documents": options.documents, "tasks": options.tasks}
    metrics = {"is_success": True, "words": counted.total(), "words_per_s": counted.total() / seconds}
    results = options.benchmark_results_path
    results.mkdir(parents=True, exist_ok=True)
    (results / "params.json").write_text(json.dumps(params))
    (results / "metrics.json").write_text(json.dumps(metrics))
    (results / "tasks.pkl").write_bytes(pickle.dumps([]))  # stage times of a pipeline, where there is one


if __name__ == "__main__":
    main()
