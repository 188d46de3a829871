"""Texts through a chain of filters or of modifiers, or from archives of papers, and held against what was planted.

score_filter writes the texts that no filter rejects, as they are; modifier writes all of them, as the modifiers make
them; arxiv takes the texts out of papers in LaTeX, and writes those that no filter rejects. Each file is a task: of Ray
Data on the cluster of RAY_ADDRESS, or of processes of this machine, without Ray.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pickle
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from heuristics import FILTERS, FILTERS_OF_PAPERS, Verdict, rejected_by
from latex_text import papers_in, text_of
from modifiers import modified

MEGABYTE = 1_000_000
Metrics = dict[str, Any]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FileDone:
    """What was read, how many texts each filter rejected, and the seconds of each stage."""

    texts: int
    size: int
    rejections: Counter[str]
    seconds: dict[str, float]


class Operation(NamedTuple):
    """What is read, and what becomes of it: the rows to write, and how many each filter rejected."""

    suffix: str
    read: Callable[[Path], list[Row]]
    work: Callable[[list[Row]], tuple[list[Row], Counter[str]]]
    compare: Callable[[Path, Sequence[Path], Sequence[FileDone]], Metrics]


def read_lines(file: Path) -> list[Row]:
    return list(rows_in([file]))


def read_papers(file: Path) -> list[Row]:
    texts = ((paper.name, text_of(paper)) for paper in papers_in(file))
    return [{"id": name, "text": text} for name, text in texts if text is not None]


def filtered(chain: Mapping[str, Verdict], rows: list[Row]) -> tuple[list[Row], Counter[str]]:
    verdicts = [rejected_by(row["text"], chain) for row in rows]
    kept = [row for row, verdict in zip(rows, verdicts, strict=True) if verdict is None]
    return kept, Counter(verdict for verdict in verdicts if verdict is not None)


def changed(rows: list[Row]) -> tuple[list[Row], Counter[str]]:
    return [{**row, "text": modified(row["text"])} for row in rows], Counter()


def do_file(name: str, output: Path, file: Path) -> FileDone:
    operation = OPERATIONS[name]
    times = [time.perf_counter()]
    rows = operation.read(file)
    times.append(time.perf_counter())
    done, rejections = operation.work(rows)
    times.append(time.perf_counter())
    with output_of(file, output).open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in done)
    times.append(time.perf_counter())
    seconds = {stage: times[at + 1] - times[at] for at, stage in enumerate(("read", "work", "write"))}
    return FileDone(len(rows), file.stat().st_size, rejections, seconds)


def output_of(file: Path, output: Path) -> Path:
    return output / f"{file.stem}.jsonl"


# --- executors -------------------------------------------------------------------------------------------------------


def on_processes(work: Callable[[Path], FileDone], files: Sequence[Path]) -> list[FileDone]:
    processes = min(
        len(files), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("fork")) as pool:
        return list(pool.map(work, files))


def on_ray_data(work: Callable[[Path], FileDone], files: Sequence[Path]) -> list[FileDone]:
    """Workers find the modules beside this one where they stand here."""
    import ray.data

    def work_on(row: dict[str, Any]) -> dict[str, Any]:
        return {"done": ray.cloudpickle.dumps(work(Path(row["file"])))}

    dataset = ray.data.from_items([{"file": str(file)} for file in files], override_num_blocks=len(files))
    return [ray.cloudpickle.loads(row["done"]) for row in dataset.map(work_on, num_cpus=1).take_all()]


EXECUTORS = {"processes": on_processes, "ray_data": on_ray_data}


# --- what was planted ------------------------------------------------------------------------------------------------


def rows_in(files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for file in files:
        with file.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def compare_filtered(truth: Path, output: Sequence[Path], done: Sequence[FileDone]) -> Metrics:
    known = {row["id"]: row["rejected_by"] for row in rows_in([truth])}
    kept = Counter(row["id"] for row in rows_in(output))
    planted = Counter(name for name in known.values() if name is not None and name not in NEVER_A_TEXT)
    found = sum((file.rejections for file in done), Counter[str]())
    return {
        "num_kept_documents": kept.total(),
        "kept_share": kept.total() / len(known),
        "wrongly_kept": sum(count for text, count in kept.items() if known[text] is not None),
        "wrongly_rejected": sum(1 for text, name in known.items() if name is None and text not in kept),
        "written_twice": kept.total() - len(kept),
        "filters_that_reject": len(found),
        "rejected_by_another": ((planted - found) + (found - planted)).total(),
    }


def compare_modified(truth: Path, output: Sequence[Path], _: Sequence[FileDone]) -> Metrics:
    """Of texts that filters reject it is not known what the modifiers must make of them."""
    known = {row["id"]: row["modified"] for row in rows_in([truth])}
    found = {row["id"]: row["text"] for row in rows_in(output)}
    checked = {text: expected for text, expected in known.items() if expected is not None}
    return {
        "num_modified_documents": len(found),
        "missing_documents": len(known) - len(found),
        "checked_documents": len(checked),
        "differing_documents": sum(1 for text, expected in checked.items() if found.get(text) != expected),
    }


def compare_papers(truth: Path, output: Sequence[Path], done: Sequence[FileDone]) -> Metrics:
    known = {row["id"]: row["text"] for row in rows_in([truth])}
    differing = sum(1 for row in rows_in(output) if row["text"] != known[row["id"]])
    return {**compare_filtered(truth, output, done), "num_papers": len(known), "differing_documents": differing}


NEVER_A_TEXT = ("unreadable", "without_text")
"""Papers that no filter sees."""
OPERATIONS = {
    "score_filter": Operation(".jsonl", read_lines, partial(filtered, FILTERS), compare_filtered),
    "modifier": Operation(".jsonl", read_lines, changed, compare_modified),
    "arxiv": Operation(".tar", read_papers, partial(filtered, FILTERS_OF_PAPERS), compare_papers),
}


# --- the script ------------------------------------------------------------------------------------------------------


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operation", choices=sorted(OPERATIONS), required=True)
    parser.add_argument("--executor", choices=sorted(EXECUTORS), required=True)
    parser.add_argument(
        "--input-path", type=Path, required=True, help="a folder of JSON lines with id and text, or of archives"
    )
    parser.add_argument("--output-path", type=Path, required=True, help="an empty folder, or one to be made")
    parser.add_argument(
        "--truth-path", type=Path, required=True, help="truth.jsonl or papers_truth.jsonl of make_texts.py"
    )
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    return parser.parse_args()


def prepared(options: argparse.Namespace) -> list[Path]:
    """The files to read, when there is an empty folder to write to."""
    options.output_path.mkdir(parents=True, exist_ok=True)
    if any(options.output_path.iterdir()):
        sys.exit(f"{options.output_path} is not empty, and what stands in it may be wanted; give another --output-path")
    suffix = OPERATIONS[options.operation].suffix
    files = sorted(options.input_path.resolve().glob(f"*{suffix}"))
    return files or sys.exit(f"not found: a {suffix} file in {options.input_path}")


def speed(done: Sequence[FileDone], seconds: float) -> Metrics:
    texts, size = sum(file.texts for file in done), sum(file.size for file in done)
    return {
        "time_taken_s": seconds,
        "num_documents_processed": texts,
        "throughput_docs_per_sec": texts / seconds,
        "mb_per_s": size / MEGABYTE / seconds,
    }


def write_results(options: argparse.Namespace, metrics: Metrics, done: Sequence[FileDone]) -> None:
    """The three files of the script contract."""
    folder: Path = options.benchmark_results_path
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [
        {
            "_stage_perf": [
                {"stage_name": name, "process_time": seconds, "num_items_processed": file.texts}
                for name, seconds in file.seconds.items()
            ]
        }
        for file in done
    ]
    (folder / "params.json").write_text(json.dumps(vars(options), indent=2, default=str))
    (folder / "metrics.json").write_text(json.dumps(metrics, indent=2))
    (folder / "tasks.pkl").write_bytes(pickle.dumps(tasks))
    print(json.dumps(metrics, indent=2))


def main() -> None:
    options = parse_options()
    files, output = prepared(options), options.output_path.resolve()
    begin = time.perf_counter()
    done = EXECUTORS[options.executor](partial(do_file, options.operation, output), files)
    seconds = time.perf_counter() - begin
    written = [output_of(file, output) for file in files]
    found = OPERATIONS[options.operation].compare(options.truth_path, written, done)
    write_results(options, {"is_success": True, **speed(done, seconds), **found}, done)


if __name__ == "__main__":
    main()
