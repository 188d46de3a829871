"""What a task does, whoever runs it: windows for every entry of its share, and a row about each time."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import IO, Any, NamedTuple

from alm_lines import line_of
from alm_manifest import Entry, Job, entries_of
from alm_overlap import filter_overlaps
from alm_windows import WindowSettings, build_windows


class Found(NamedTuple):
    """What the metrics need to know of a result."""

    audio_filepath: str
    builder_windows: int
    filtered_windows: int
    filtered_dur_s: float


class Row(NamedTuple):
    """One time an entry was done: by which job, what was found, and the seconds of each stage."""

    job: int
    found: Found
    read_s: float = 0.0
    build_s: float = 0.0
    overlap_s: float = 0.0
    write_s: float = 0.0


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


def do_job(number: int, job: Job, settings: Settings) -> list[Row]:
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
                rows.append(_do_entry(number, entry, settings, output, 0.0 if repeat else read_s))
    return rows


def _do_entry(number: int, entry: Entry, settings: Settings, output: IO[str] | None, read_s: float) -> Row:
    began = perf_counter()
    built = build_windows(entry, settings.windows)
    built_at = perf_counter()
    result = filter_overlaps(built, settings.overlap_percentage, settings.windows.target_window_duration)
    filtered_at = perf_counter()
    if output is not None:
        output.write(line_of(result))
    write_s = perf_counter() - filtered_at if output else 0.0
    return Row(number, found_in(result), read_s, built_at - began, filtered_at - built_at, write_s)


def found_in(result: Entry) -> Found:
    counted = len(result["windows"]), len(result["filtered_windows"])
    return Found(str(result["audio_filepath"]), *counted, result["filtered_dur"])


def _output(folder: str | None, number: int) -> AbstractContextManager[Any]:
    """The file a job writes the curated entries to, one JSON object per line."""
    if folder is None:
        return nullcontext()
    path = f"{folder.rstrip('/')}/part-{number:05d}.jsonl"
    if "://" not in path:
        os.makedirs(folder, exist_ok=True)
        return open(path, "w", encoding="utf-8")
    import fsspec

    opened: AbstractContextManager[Any] = fsspec.open(path, "w", encoding="utf-8", auto_mkdir=True)
    return opened
