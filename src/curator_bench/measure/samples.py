"""Samples over time: their peak and average, and the CSV file they are written to."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from curator_bench.files import safe_files


class TimeAverage:
    """Peak and average of a quantity sampled at irregular intervals."""

    def __init__(self) -> None:
        self.peak: float | None = None
        """None without a sample, as is the average."""
        self._area = 0.0
        self._first: float | None = None
        self._last = (0.0, 0.0)

    def add(self, moment: float, value: float) -> None:
        if self._first is None:
            self._first = moment
        else:
            before, value_before = self._last
            self._area += (moment - before) * (value + value_before) / 2
        self.peak = value if self.peak is None else max(self.peak, value)
        self._last = (moment, value)

    @property
    def average(self) -> float | None:
        if self._first is None:
            return None
        moment, value = self._last
        return self._area / (moment - self._first) if moment > self._first else value


class RowFile:
    """A CSV file. It is created with its header when the first rows come, and replaces an older file.

    No link is followed to it from the folder `below` on; by default from its own folder.
    """

    def __init__(self, path: Path, columns: Sequence[str], below: Path | None = None) -> None:
        self._path, self._below = path, below
        self._columns = columns
        self._file: BinaryIO | None = None

    def add(self, rows: Iterable[Sequence[object]]) -> None:
        """Append all rows, or none (disk full: OSError)."""
        if self._file is None:
            self._file = safe_files.create_file(self._path, below=self._below)
            self._write(self._file, [self._columns])
        self._write(self._file, rows)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, file: BinaryIO, rows: Iterable[Sequence[object]]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        data = text.getvalue().encode()
        before = file.tell()
        written = file.write(data)
        if written < len(data):
            file.seek(before)
            file.truncate()
            raise OSError(f"{self._path}: no room for {len(data)} bytes more")
