"""Figures of Ray Data's operators, from the log that Ray Data writes into the session's folder of its cluster.

Ray Data logs the metrics of an operator when it has completed, and those of all operators every few seconds. They hold
what task events cannot tell: an operator's tasks hand out blocks one by one, and wait in between while later operators
are slower, so the time from their start to their end is not time of working.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from curator_bench.files import safe_files

LOG = Path("logs", "ray-data", "ray-data.log")
FUSED = "->"
"""Ray Data joins the names of operators that it fused by this."""
_MOST_BYTES = 128 * 2**20
_LONGEST_LINE = 2**18
_MOST_OPERATORS = 500
_PLAN = re.compile(r"Execution plan of Dataset \S+: (.+)")
_OPERATOR = re.compile(r"(?:TaskPool|ActorPool)MapOperator\[(.*?)\](?= -> |$)")
_COMPLETED = re.compile(r"Operator \w+\[(.*)\] completed\. Operator Metrics:$")
_INTERIM = "Operator Metrics:"
_FIGURES = (
    *("num_tasks_finished", "num_tasks_failed", "block_transform_time_s", "function_body_time_s"),
    *("block_generation_time", "block_serialization_time_s", "task_scheduling_time_s", "bytes_task_inputs_processed"),
    *("bytes_task_outputs_generated", "task_submission_backpressure_time", "task_output_backpressure_time"),
)
_FIGURE = re.compile(rf"'({'|'.join(_FIGURES)})': (\d+(?:\.\d+)?(?:e[+-]?\d+)?)[,}}]")


@dataclass(slots=True)
class Operator:
    """Sums of one operator's figures, over all executions of datasets that have it. None is unknown."""

    figures: dict[str, float] = field(default_factory=dict)
    interim: dict[str, float] = field(default_factory=dict)
    """Those of the last report, of an operator that did not complete: its consumer stopped, or it failed."""
    is_complete: bool = False

    def get(self, name: str) -> float | None:
        return (self.figures if self.is_complete else self.interim).get(name)

    @property
    def executing_s(self) -> float | None:
        """Seconds in which its tasks made blocks: preparing batches, the functions, and building the blocks.

        Before Ray 2.60, only the whole time of a block is known.
        """
        found = (self.get(name) for name in ("block_transform_time_s", "function_body_time_s", "block_generation_time"))
        return next((one for one in found if one is not None), None)

    @property
    def backpressure_s(self) -> float | None:
        """The longer of the two ways of holding it back, which may overlap."""
        found = [self.get(name) for name in ("task_submission_backpressure_time", "task_output_backpressure_time")]
        return max((one for one in found if one is not None), default=None)


class RayDataLog:
    """The log of one cluster from `mark` on."""

    def __init__(self, session_dir: Path | None) -> None:
        self._session_dir = session_dir
        self._from = 0

    def mark(self) -> None:
        """Skip what is in the log now."""
        with suppress(OSError), self._open() as file:
            self._from = os.fstat(file.fileno()).st_size

    def operators(self) -> tuple[dict[str, Operator], str]:
        """Read the operators by name, and a problem if there is one. A script may have written anything."""
        if self._session_dir is None:
            return {}, ""
        try:
            with self._open() as file:
                file.seek(self._from)
                is_cut = os.fstat(file.fileno()).st_size - self._from > _MOST_BYTES
                found = _operators(_lines(file))
        except FileNotFoundError:
            return {}, ""
        except OSError as error:
            return {}, f"Ray Data's log cannot be read: {error.strerror or error}"
        return found, f"Ray Data's log is longer than {_MOST_BYTES >> 20} MiB; its end was not read" if is_cut else ""

    def _open(self) -> BinaryIO:
        if self._session_dir is None:
            raise FileNotFoundError
        return safe_files.open_file(self._session_dir / LOG, below=self._session_dir)


def _lines(file: BinaryIO) -> Iterator[str]:
    left = _MOST_BYTES
    while left > 0 and (line := file.readline(min(left, _LONGEST_LINE))):
        left -= len(line)
        yield line.decode("utf-8", "replace").rstrip("\n")


def _operators(lines: Iterator[str]) -> dict[str, Operator]:
    found: dict[str, Operator] = {}
    for line in lines:
        if plan := _PLAN.search(line):
            for name in _OPERATOR.findall(plan[1])[:_MOST_OPERATORS]:
                if len(found) < _MOST_OPERATORS:
                    found.setdefault(name, Operator())
        elif completed := _COMPLETED.search(line):
            if (operator := found.get(completed[1])) is not None:
                operator.is_complete = True
                for name, value in _figures(next(lines, "")):
                    operator.figures[name] = operator.figures.get(name, 0.0) + value
        elif line.endswith(_INTERIM):
            _take_interim(lines, found)
    return found


def _take_interim(lines: Iterator[str], found: dict[str, Operator]) -> None:
    for line in lines:
        name, separator, figures = line.partition(": {")
        if not separator or "'" in name:
            return
        if name in found:
            found[name].interim = dict(_figures("{" + figures))


def _figures(text: str) -> Iterator[tuple[str, float]]:
    for name, value in _FIGURE.findall(text):
        number = float(value)
        if math.isfinite(number):
            yield name, number
