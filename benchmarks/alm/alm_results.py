"""What a run of the benchmark found, as metrics and as the three files of the script contract."""

from __future__ import annotations

import json
import math
import pickle
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alm_work import Row

Metrics = dict[str, Any]
Task = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an engine leaves: a row for every entry each time it was done, in `seconds` from asking to having it."""

    seconds: float
    entries_asked: int
    rows: list[Row]
    tasks: list[Task] = field(default_factory=list)


def metrics_of(outcome: Outcome) -> Metrics:
    found = [row.found for row in outcome.rows]
    entries, windows = len(found), sum(one.builder_windows for one in found)
    return {
        "is_success": entries == outcome.entries_asked,
        "time_taken_s": outcome.seconds,
        "num_input_entries": outcome.entries_asked,
        "num_output_entries": entries,
        "entries_with_windows": sum(1 for one in found if one.builder_windows or one.filtered_windows),
        "total_builder_windows": windows,
        "total_filtered_windows": sum(one.filtered_windows for one in found),
        "total_filtered_dur_s": math.fsum(one.filtered_dur_s for one in found),  # the same in whatever order they came
        "throughput_entries_per_sec": entries / outcome.seconds,
        "throughput_windows_per_sec": windows / outcome.seconds,
    }


def failed_metrics(seconds: float) -> Metrics:
    """Nothing was found, in whatever time it took."""
    return {**metrics_of(Outcome(seconds, 0, [])), "is_success": False}


def planted_metrics(rows: Sequence[Row], planted_file: Path) -> Metrics:
    """How many rows are of recordings whose windows are known, and how many of these found others."""
    known = {name: tuple(expected.values()) for name, expected in json.loads(planted_file.read_text("utf-8")).items()}
    checked = [row.found for row in rows if row.found.audio_filepath in known]
    wrong = sum(1 for name, *numbers in checked if tuple(numbers) != known[name])
    return {"planted_entries": len(checked), "planted_entries_wrong": wrong}


def tasks_of(rows: Sequence[Row]) -> list[Task]:
    """A task for each job, with the seconds each stage took for all of its entries together."""
    by_job = defaultdict(list)
    for row in rows:
        by_job[row.job].append(row)
    return [_task(by_job[job]) for job in sorted(by_job)]


def _task(rows: Sequence[Row]) -> Task:
    """In plain values, so that it can be read where this code is not."""
    windows = sum(row.found.builder_windows for row in rows)
    filtered = sum(row.found.filtered_windows for row in rows)
    stages: tuple[tuple[str, str, dict[str, float]], ...] = (
        ("manifest_reader", "read_s", {}),
        ("alm_data_builder", "build_s", {"windows_created": windows}),
        ("alm_data_overlap", "overlap_s", {"input_windows": windows, "output_windows": filtered}),
        ("manifest_writer", "write_s", {}),
    )
    return {
        "_stage_perf": [
            {
                "stage_name": stage,
                "process_time": math.fsum(getattr(row, column) for row in rows),
                "num_items_processed": len(rows),
                "custom_metrics": numbers,
            }
            for stage, column, numbers in stages
        ]
    }


def write_results(folder: Path, params: Metrics, metrics: Metrics, tasks: list[Task]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "params.json").write_text(json.dumps(params, indent=2) + "\n")
    (folder / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")
    (folder / "tasks.pkl").write_bytes(pickle.dumps(tasks))
