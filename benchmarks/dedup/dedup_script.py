"""What the scripts of this folder share: their options, the times of their stages, and the files they leave."""

from __future__ import annotations

import argparse
import json
import pickle
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from documents import FORMATS
from executors import EXECUTORS

MEGABYTE = 1_000_000
Metrics = dict[str, Any]


@dataclass(slots=True)
class StageClock:
    """Times the stages of one task: `with clock.stage("read"): …`."""

    stages: list[dict[str, Any]] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, Any]]:
        """Gives the stage's measurement, to add what is known only when it is done."""
        measured: dict[str, Any] = {"stage_name": name}
        begin = time.perf_counter()
        yield measured
        measured["process_time"] = time.perf_counter() - begin
        self.stages.append(measured)

    def as_task(self) -> dict[str, Any]:
        return {"_stage_perf": self.stages}


@dataclass(frozen=True, slots=True)
class FileRead:
    """What a task read."""

    documents: int
    size: int
    clock: StageClock


class Stopwatch:
    """The seconds since it was made."""

    def __init__(self) -> None:
        self._begin = time.perf_counter()

    def seconds(self) -> float:
        return time.perf_counter() - self._begin


def parser_for_documents(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--input-path", type=Path, required=True, help="the folder of the documents")
    parser.add_argument("--format", choices=FORMATS, required=True)
    parser.add_argument("--output-path", type=Path, required=True, help="an empty folder, or one to be made")
    parser.add_argument("--executor", choices=sorted(EXECUTORS), required=True)
    parser.add_argument("--id-field", default="id")
    parser.add_argument("--truth-path", type=Path, help="what was planted, where the documents were made for this")
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    return parser


def add_text_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--text-field", default="text")
    parser.add_argument(
        "--partitions", type=_partitions, default=4, help="into how many parts what was read is grouped"
    )


def _partitions(text: str) -> int:
    """They are numbered with 16 bits, which sort quickest."""
    if not 1 <= int(text) <= 2**16:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {2**16}")
    return int(text)


def empty_folder(path: Path) -> Path:
    path = path.resolve()
    path.mkdir(parents=True, exist_ok=True)
    if any(path.iterdir()):
        sys.exit(f"{path} is not empty, and what stands in it may be wanted; give another --output-path")
    return path


def speed(files: Sequence[FileRead], seconds: float) -> Metrics:
    documents, size = sum(file.documents for file in files), sum(file.size for file in files)
    return {
        "time_taken_s": seconds,
        "num_documents": documents,
        "num_files": len(files),
        "input_mb": size / MEGABYTE,
        "documents_per_s": documents / seconds,
        "mb_per_s": size / MEGABYTE / seconds,
    }


def write_results(options: argparse.Namespace, metrics: Metrics, clocks: Sequence[StageClock]) -> None:
    """The three files of the script contract."""
    folder: Path = options.benchmark_results_path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "params.json").write_text(json.dumps(vars(options), indent=2, default=str))
    (folder / "metrics.json").write_text(json.dumps(metrics, indent=2))
    (folder / "tasks.pkl").write_bytes(pickle.dumps([clock.as_task() for clock in clocks]))
    print(json.dumps(metrics, indent=2))
