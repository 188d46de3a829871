"""What the scripts of this folder share: options, NeMo Curator's executors by name, and the files a script leaves.

tasks.pkl holds the task objects themselves, as NeMo Curator's own benchmark scripts leave them.
"""

from __future__ import annotations

import argparse
import json
import pickle
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.json as paj

MEGABYTE = 1_000_000
FORMATS = ("jsonl", "parquet")
_EXECUTORS = {
    "xenna": ("nemo_curator.backends.xenna", "XennaExecutor"),
    "ray_data": ("nemo_curator.backends.ray_data", "RayDataExecutor"),
    "ray_actors": ("nemo_curator.backends.ray_actor_pool", "RayActorPoolExecutor"),
}
Metrics = dict[str, Any]


def parser_for_documents(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--input-path", type=Path, required=True, help="the folder of the documents")
    parser.add_argument("--format", choices=FORMATS, required=True)
    parser.add_argument("--output-path", type=Path, required=True)
    parser.add_argument("--executor", choices=sorted(_EXECUTORS), required=True)
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    return parser


def executor_of(options: argparse.Namespace) -> Any:
    """It finds the cluster of RAY_ADDRESS by itself. Only the one that was asked for is imported."""
    module, name = _EXECUTORS[options.executor]
    return getattr(import_module(module), name)()


def read_documents(folder: Path, form: str) -> pa.Table:
    """All of them, by id; they were made by `make_corpus.py`, or are what is left of those."""
    files = sorted(folder.glob(f"*.{form}"))
    tables = [paj.read_json(file) if form == "jsonl" else ds.dataset(file).to_table() for file in files]
    return pa.concat_tables(tables).select(["id", "text"]).sort_by("id")


def differing_texts(found: pa.Table, expected: Mapping[int, str]) -> int:
    """How many documents are missing, too many, or not what they should be."""
    texts = dict(zip(found["id"].to_pylist(), found["text"].to_pylist(), strict=True))
    wrong = sum(1 for one in {*texts, *expected} if texts.get(one) != expected.get(one))
    written_twice: int = found.num_rows - len(texts)
    return wrong + written_twice


def speed(options: argparse.Namespace, documents: int, seconds: float) -> Metrics:
    size = sum(file.stat().st_size for file in options.input_path.glob(f"*.{options.format}"))
    return {
        "time_taken_s": seconds,
        "num_documents": documents,
        "documents_per_s": documents / seconds,
        "mb_per_s": size / MEGABYTE / seconds,
    }


def write_results(options: argparse.Namespace, metrics: Metrics, tasks: Sequence[Any]) -> None:
    folder: Path = options.benchmark_results_path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "params.json").write_text(json.dumps(vars(options), indent=2, default=str))
    (folder / "metrics.json").write_text(json.dumps(metrics, indent=2))
    (folder / "tasks.pkl").write_bytes(pickle.dumps(list(tasks)))
    print(json.dumps(metrics, indent=2))
