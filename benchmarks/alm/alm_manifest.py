"""Reading a manifest, one JSON object per line, from wherever fsspec reaches, and dividing it among tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Entry = dict[str, Any]

NEEDED = ("audio_filepath", "audio_sample_rate", "segments")
LARGEST_SHARD = 64 << 20  # bytes; so a task's share of a manifest fits into memory whatever the size of that


class ManifestError(Exception):
    """What is wrong with a manifest, for whoever wrote it."""


class Shard(NamedTuple):
    """Neighbouring lines of a manifest as they stand there; `first_line` counts from 1."""

    first_line: int
    text: bytes


class Job(NamedTuple):
    """What one task does: every entry of a shard, some times over."""

    shard: Shard
    repeats: int


def read_lines(url: str) -> list[bytes]:
    """The lines of a manifest: a path, or anything fsspec has a file system for."""
    if "://" not in url:
        return Path(url).read_bytes().splitlines()
    import fsspec  # needs longer to import than a small manifest to process

    with fsspec.open(url, "rb") as file:
        content: bytes = file.read()
    return content.splitlines()


def count_entries(lines: Sequence[bytes]) -> int:
    return sum(1 for line in lines if line.strip())


def entries_of(shard: Shard) -> Iterator[Entry]:
    """The entries of a shard; blank lines are none."""
    for number, line in enumerate(shard.text.splitlines(), shard.first_line):
        if line.strip():
            yield _entry(number, line)


def _entry(number: int, line: bytes) -> Entry:
    try:
        entry = json.loads(line.decode())
    except ValueError as error:
        raise ManifestError(f"line {number} of the manifest is not JSON: {error}") from None
    if not isinstance(entry, dict):
        raise ManifestError(f"line {number} of the manifest is {type(entry).__name__}, not an object")
    if missing := [key for key in NEEDED if key not in entry]:
        raise ManifestError(f"line {number} of the manifest has no {' and no '.join(missing)}")
    return entry


def jobs_for(lines: Sequence[bytes], repeat_factor: int, tasks: int) -> list[Job]:
    """About as many jobs as there shall be tasks, of about the same size, that together do every entry each time.

    Repeating is a number in a job: no copy of an entry is ever shipped. The largest come first, so that all processes
    end at about the same time.
    """
    shards = _shards(lines, tasks)
    if not shards:
        return []
    pieces = min(repeat_factor, -(-tasks // len(shards)))
    shares = [(repeat_factor + piece) // pieces for piece in range(pieces)]
    jobs = [Job(shard, share) for share in shares for shard in shards]
    return sorted(jobs, key=lambda job: len(job.shard.text) * job.repeats, reverse=True)


def _shards(lines: Sequence[bytes], most: int) -> list[Shard]:
    largest = min(sum(map(len, lines)) / most, LARGEST_SHARD)
    shards: list[Shard] = []
    first, size = 0, 0
    for index, line in enumerate(lines):
        size += len(line)
        if size >= largest or index == len(lines) - 1:
            shards.append(Shard(first + 1, b"\n".join(lines[first : index + 1])))
            first, size = index + 1, 0
    return [shard for shard in shards if shard.text.strip()]
