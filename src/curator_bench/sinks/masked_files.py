"""Masked copies of files for sinks. A log may hold secrets that a script printed."""

from __future__ import annotations

import os
from pathlib import Path

from curator_bench.files import safe_files
from curator_bench.masking import Mask

_PIECE = 1 << 20


def copy_masked(path: Path, target: Path, mask: Mask, most: int) -> None:
    """Copy the last `most` bytes of a file with its secrets masked. Raises OSError, also for a link."""
    with safe_files.open_file(path) as source, target.open("wb") as copy:
        if (size := os.fstat(source.fileno()).st_size) > most:
            source.seek(size - most)
            source.readline()  # half a line may begin with half a secret
        while lines := source.readlines(_PIECE):
            text = b"".join(lines).decode("utf-8", "surrogateescape")
            copy.write(mask.hide(text).encode("utf-8", "surrogateescape"))
