"""Stages that a script named with `curator_bench.stage`: the lines it appended to the file of its run.

A line is `[name, count, failures, own seconds, began, ended, pid]`, with moments of the monotonic clock that all
processes of a machine share. Nothing in it is trusted.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from curator_bench.execution.untrusted_files import Absent, Unusable, clean_text, open_regular_file
from curator_bench.measure.named_stages import NamedStages
from curator_bench.stages import LONGEST_NAME, MOST_BYTES
from curator_bench.values import Stage

_LONGEST_LINE = 8 * LONGEST_NAME
_MOST_COUNT = 2**53


def read_stage_lines(path: Path, began: float, *, below: Path | None = None) -> tuple[tuple[Stage, ...], list[str]]:
    """Read the stages, with a warning if some of them are lost. `began` is when the script began.

    No link is followed from the folder `below` on. A file of any size takes a second or two at most.
    """
    stages = NamedStages(began)
    try:
        with open_regular_file(path, below) as file:
            odd = _take(file, stages)
            is_cut = os.fstat(file.fileno()).st_size > MOST_BYTES
    except Absent:
        return (), []
    except Unusable as reason:
        return (), [f"{path.name} {reason}: the script's stages are unknown"]
    except OSError as error:
        return (), [f"{path.name} cannot be read: {error.strerror or error}: the script's stages are unknown"]
    problems = [
        *([f"{odd:,} lines that are no stage"] if odd else []),
        *([f"more than {MOST_BYTES >> 20} MiB, of which the first are read"] if is_cut else []),
        *([f"more than {stages.most} stages, of which the first are kept"] if stages.is_full else []),
    ]
    return stages.stages(), [f"{path.name} has {'; '.join(problems)}"] if problems else []


def _take(file: BinaryIO, stages: NamedStages) -> int:
    """Add the stages of a file; return the number of invalid lines."""
    odd = 0
    for line in _lines(file):
        use = _use_of(line)
        if use is None:
            odd += 1
        else:
            stages.add(*use)
    return odd


def _lines(file: BinaryIO) -> Iterator[bytes]:
    left = MOST_BYTES
    while left > 0 and (line := file.readline(min(left, _LONGEST_LINE))):
        left -= len(line)
        yield line


def _use_of(line: bytes) -> tuple[str, int, int, float, float, float, int] | None:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, list) or len(said) != 7:
        return None
    name, count, failures, own_s, began, ended, pid = said
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not all(map(_is_count, (failures, pid))):
        return None
    if not _is_count(count) or not all(map(_is_moment, (own_s, began, ended))) or ended < began:
        return None
    return clean_text(name), count, failures, own_s, began, ended, pid


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST_COUNT


def _is_moment(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= _MOST_COUNT and math.isfinite(value)
