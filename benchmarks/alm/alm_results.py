"""What a run of the benchmark found, as metrics and as the three files of the script contract."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from alm_work import Columns

Metrics = dict[str, Any]
Task = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an engine leaves: a row for every entry each time it was done, in `seconds` from asking to having it."""

    seconds: float
    entries_asked: int
    rows: Columns
    tasks: list[Task] = field(default_factory=list)


def metrics_of(outcome: Outcome) -> Metrics:
    rows = outcome.rows
    entries, windows = len(rows["builder_windows"]), int(rows["builder_windows"].sum())
    return {
        "is_success": entries == outcome.entries_asked,
        "time_taken_s": outcome.seconds,
        "num_input_entries": outcome.entries_asked,
        "num_output_entries": entries,
        "entries_with_windows": int(np.count_nonzero(rows["builder_windows"] + rows["filtered_windows"])),
        "total_builder_windows": windows,
        "total_filtered_windows": int(rows["filtered_windows"].sum()),
        "total_filtered_dur_s": math.fsum(rows["filtered_dur_s"]),  # the same in whatever order they came
        "throughput_entries_per_sec": entries / outcome.seconds,
        "throughput_windows_per_sec": windows / outcome.seconds,
    }


def failed_metrics(seconds: float) -> Metrics:
    """Nothing was found, in whatever time it took."""
    nothing = {name: np.empty(0) for name in ("builder_windows", "filtered_windows", "filtered_dur_s")}
    return {**metrics_of(Outcome(seconds, 0, nothing)), "is_success": False}


def planted_metrics(rows: Columns, planted_file: Path) -> Metrics:
    """How many rows are of recordings whose windows are known, and how many of these found others."""
    known = json.loads(planted_file.read_text("utf-8"))
    found = zip(
        rows["audio_filepath"].tolist(),
        rows["builder_windows"].tolist(),
        rows["filtered_windows"].tolist(),
        rows["filtered_dur_s"].tolist(),
        strict=True,
    )
    checked = [(known[name], numbers) for name, *numbers in found if name in known]
    wrong = sum(1 for expected, numbers in checked if list(expected.values()) != numbers)
    return {"planted_entries": len(checked), "planted_entries_wrong": wrong}


def tasks_of(rows: Columns) -> list[Task]:
    """A task for each job, with the seconds each stage took for all of its entries together."""
    return [
        _task({name: values[rows["job"] == job] for name, values in rows.items()}) for job in np.unique(rows["job"])
    ]


def _task(rows: Columns) -> Task:
    """In plain values, so that it can be read where this code is not."""
    windows, filtered = int(rows["builder_windows"].sum()), int(rows["filtered_windows"].sum())
    stages: tuple[tuple[str, str, dict[str, float]], ...] = (
        ("manifest_reader", "read_s", {}),
        ("alm_data_builder", "build_s", {"windows_created": windows}),
        ("alm_data_overlap", "overlap_s", {"input_windows": windows, "output_windows": filtered}),
        ("manifest_writer", "write_s", {}),
    )
    items = len(rows["job"])
    return {
        "_stage_perf": [
            {
                "stage_name": stage,
                "process_time": float(rows[column].sum()),
                "num_items_processed": items,
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
