"""Count words with Ray. A benchmark script is an ordinary program that takes options and writes three files.

By hand: `curator-bench command matrix.yaml 'word_count[2]'` prints its command line.
"""

import argparse
import json
import pickle
import random
import time
from collections import Counter
from pathlib import Path

import ray

WORDS_PER_DOCUMENT = 200


def documents(count: int) -> list[str]:
    """Return the same texts in each run, so that runs can be compared."""
    draw = random.Random(1)
    words = [f"word{number}" for number in range(1000)]
    return [" ".join(draw.choices(words, k=WORDS_PER_DOCUMENT)) for _ in range(count)]


def count_words(texts: list[str]) -> Counter[str]:
    return Counter(word for text in texts for word in text.split())


def count_with_ray(texts: list[str], tasks: int) -> Counter[str]:
    count = ray.remote(count_words)
    parts = [texts[start::tasks] for start in range(tasks)]
    return sum(ray.get([count.remote(part) for part in parts]), Counter())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, required=True)
    parser.add_argument("--tasks", type=int, required=True)
    parser.add_argument("--benchmark-results-path", type=Path, required=True)  # every script gets this one
    options = parser.parse_args()

    ray.init(log_to_driver=False)  # connects to the cluster that was started for this run
    texts = documents(options.documents)
    start = time.perf_counter()
    counted = count_with_ray(texts, options.tasks)
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
