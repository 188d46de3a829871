"""What a task does, whoever runs it: windows for every entry of its share, and a row about each time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from alm_manifest import Entry, Job, entries_of
from alm_overlap import filter_overlaps
from alm_windows import WindowSettings, build_windows

Columns = dict[str, npt.NDArray[Any]]
Row = tuple[Any, ...]

_KINDS: dict[str, Any] = {
    "job": np.int64,
    "audio_filepath": object,
    "builder_windows": np.int64,
    "filtered_windows": np.int64,
    "filtered_dur_s": np.float64,
    "read_s": np.float64,
    "build_s": np.float64,
    "overlap_s": np.float64,
    "write_s": np.float64,
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What the pipeline shall do; `output_path` is a folder for the curated manifest, without one nothing is kept."""

    windows: WindowSettings
    overlap_percentage: int
    output_path: str | None = None


def curate(entry: Entry, settings: Settings) -> Entry:
    """Both stages: the bare arithmetic of the pipeline."""
    built = build_windows(entry, settings.windows)
    return filter_overlaps(built, settings.overlap_percentage, settings.windows.target_window_duration)


def do_job(number: int, job: Job, settings: Settings) -> Columns:
    """Does every entry of the job as often as it says, each time anew from its segments."""
    entries = []
    begin = perf_counter()
    for entry in entries_of(job.shard):
        entries.append((entry, perf_counter() - begin))
        begin = perf_counter()
    rows = []
    with _output(settings.output_path, number) as output:
        for repeat in range(job.repeats):
            for entry, read_s in entries:
                rows.append((number, *_do_entry(entry, settings, output, 0.0 if repeat else read_s)))
    return columns_of(rows)


def _do_entry(entry: Entry, settings: Settings, output: IO[str] | None, read_s: float) -> Row:
    began = perf_counter()
    built = build_windows(entry, settings.windows)
    built_at = perf_counter()
    result = filter_overlaps(built, settings.overlap_percentage, settings.windows.target_window_duration)
    filtered_at = perf_counter()
    if output is not None:
        output.write(json.dumps(result, ensure_ascii=False) + "\n")
    times = (read_s, built_at - began, filtered_at - built_at, perf_counter() - filtered_at if output else 0.0)
    return (*numbers_of(result), *times)


def numbers_of(result: Entry) -> Row:
    """What the metrics need to know of a result."""
    found = len(result["windows"]), len(result["filtered_windows"]), result["filtered_dur"]
    return str(result["audio_filepath"]), *found


def columns_of(rows: Iterable[Row]) -> Columns:
    by_column: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(_KINDS)
    return {name: np.array(values, kind) for values, (name, kind) in zip(by_column, _KINDS.items(), strict=True)}


def joined(tables: Sequence[Columns]) -> Columns:
    return {name: np.concatenate([empty, *(table[name] for table in tables)]) for name, empty in columns_of([]).items()}


def _output(folder: str | None, number: int) -> AbstractContextManager[Any]:
    """The file a job writes the curated entries to, one JSON object per line."""
    if folder is None:
        return nullcontext()
    import fsspec

    path = f"{folder.rstrip('/')}/part-{number:05d}.jsonl"
    opened: AbstractContextManager[Any] = fsspec.open(path, "w", encoding="utf-8", auto_mkdir=True)
    return opened
