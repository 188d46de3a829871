"""Program that reads what memray recorded, in the Python of the script, which has memray.

Arguments: the file of the script (those of processes it forked have its name and a pid), and the file to write
collapsed stacks of bytes to. Standard library and memray only.
"""

from __future__ import annotations

import glob
import importlib
import sys
from collections import Counter
from typing import Any

_RUNNERS = ("memray.", "runpy:")
"""Modules of the frames below a script: of memray itself, and of Python's way to run a script."""


def main() -> None:
    records, target = sys.argv[1:]
    stacks: Counter[tuple[str, ...]] = Counter()
    for path in [records, *sorted(glob.glob(glob.escape(records) + ".*"))]:
        add_stacks(path, stacks, is_first=path == records)
    with open(target, "w", encoding="utf-8", errors="replace") as file:
        for stack, size in stacks.items():
            print(";".join(stack), size, file=file)


def add_stacks(path: str, stacks: Counter[tuple[str, ...]], is_first: bool) -> None:
    memray: Any = importlib.import_module("memray")

    try:
        reader = memray.FileReader(path)
        for record in reader.get_high_watermark_allocation_records(merge_threads=True):
            if record.size > 0:
                stacks[stack_of(record, reader.metadata.has_native_traces)] += record.size
    except (OSError, ValueError):  # a process that was killed before it wrote anything
        if is_first:
            raise


def stack_of(record: Any, is_native: bool) -> tuple[str, ...]:
    frames: Any = importlib.import_module("frames")  # beside this file
    try:
        said = record.hybrid_stack_trace() if is_native else record.stack_trace()
    except NotImplementedError:  # freeing and mapping of memory has no stack
        said = []
    names = [one_line(frames.frame_of(function, frames.short_path(file))) for function, file, _ in said]
    names.reverse()
    below = [index for index, name in enumerate(names) if name.startswith(_RUNNERS)]
    return tuple(names[below[-1] + 1 :] if below else names) or ("[unknown]",)


def one_line(text: str) -> str:
    return " ".join(text.replace(";", ",").split())


if __name__ == "__main__":
    main()
