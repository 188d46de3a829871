"""A session as a table: one metric, by the values of the axes that stand for its rows and columns."""

from __future__ import annotations

import csv
import io
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from curator_bench.errors import BenchError
from curator_bench.values import Verdict

_OF_EVERY_RUN = ("entry", "verdict", "host")
_HAVE_METRICS = (Verdict.PASSED, Verdict.FAILED)
_DIGITS = re.compile(r"(\d+(?:\.\d+)?)")
_NOT_PASSED = "*"
SUMMARIES: dict[str, Callable[[Sequence[float]], float]] = {
    "median": statistics.median,
    "mean": statistics.fmean,
    "min": min,
    "max": max,
    "sum": math.fsum,
}
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """The runs that share a row and a column."""

    value: float | None
    """None where no run has the metric."""
    runs: int
    not_passed: tuple[str, ...] = ()
    """The verdicts of those that did not pass."""

    def text(self, number: Callable[[float], str]) -> str:
        """The number, with a star when not all of it passed; without one, what became of the runs instead."""
        if self.value is None:
            return ", ".join(sorted(set(self.not_passed))) or "-"
        return number(self.value) + (_NOT_PASSED if self.not_passed else "")


@dataclass(frozen=True, slots=True)
class Pivot:
    """`cells[row, column]`; a pair of which there is no run has no cell."""

    metric: str
    summary: str
    rows: tuple[str, ...]
    """The axes that the rows stand for."""
    columns: tuple[str, ...]
    row_keys: tuple[Key, ...]
    column_keys: tuple[Key, ...]
    cells: Mapping[tuple[Key, Key], Cell]
    merged: tuple[str, ...] = ()
    """The axes that differ within a cell."""

    def heads(self) -> list[str]:
        return [*self.rows, *(" / ".join(key) or self.metric for key in self.column_keys)]

    def lines(self, number: Callable[[float], str]) -> list[list[str]]:
        """Below the heads: what the row stands for, and its cells."""
        return [[*row, *self._texts(row, number)] for row in self.row_keys]

    def _texts(self, row: Key, number: Callable[[float], str]) -> list[str]:
        found = (self.cells.get((row, column)) for column in self.column_keys)
        return [cell.text(number) if cell else "" for cell in found]

    def notes(self) -> list[str]:
        """What has to be known to read the numbers."""
        most = max((cell.runs for cell in self.cells.values()), default=0)
        notes = [f"{self.metric}, {self.summary} of up to {most} runs in a cell"] if most > 1 else [self.metric]
        if self.merged:
            notes.append(f"a cell takes all of {', '.join(self.merged)} together")
        if any(cell.not_passed and cell.value is not None for cell in self.cells.values()):
            notes.append(f"{_NOT_PASSED} not all of its runs passed")
        return notes

    def as_markdown(self) -> str:
        lines = [self.heads(), *self.lines(_short)]
        ruler = ["---"] * len(self.rows) + ["---:"] * len(self.column_keys)
        rows = [lines[0], ruler, *lines[1:]]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)

    def as_csv(self) -> str:
        """Numbers in full; empty where there is none."""
        written = io.StringIO()
        writer = csv.writer(written, lineterminator="\n")
        writer.writerow(self.heads())
        for row in self.row_keys:
            found = (self.cells.get((row, column)) for column in self.column_keys)
            writer.writerow([*row, *("" if cell is None or cell.value is None else cell.value for cell in found)])
        return written.getvalue().rstrip("\n")

    def _repr_markdown_(self) -> str:
        """What a notebook shows."""
        return "\n\n".join([self.as_markdown(), "; ".join(self.notes())])


def pivot(
    runs: Iterable[Mapping[str, Any]],
    *,
    metric: str,
    rows: Sequence[str],
    columns: Sequence[str] = (),
    summary: str = "median",
) -> Pivot:
    """Runs that do not have one of the axes are left out, as are runs of entries that do not measure the metric."""
    all_runs = [run for run in runs if run["verdict"] != Verdict.SKIPPED]
    _check_axes([*rows, *columns], all_runs)
    metric = find_metric(metric, all_runs)
    measuring = {run.get("entry") for run in all_runs if metric in run["metrics"]}
    chosen = [run for run in all_runs if run.get("entry") in measuring and _has(run, [*rows, *columns])]
    groups: dict[tuple[Key, Key], list[Mapping[str, Any]]] = defaultdict(list)
    for run in chosen:
        groups[_key(run, rows), _key(run, columns)].append(run)
    return Pivot(
        metric=metric,
        summary=summary,
        rows=tuple(rows),
        columns=tuple(columns),
        row_keys=tuple(sorted({row for row, _ in groups}, key=_naturally)),
        column_keys=tuple(sorted({column for _, column in groups}, key=_naturally)),
        cells={place: _cell(group, metric, summary) for place, group in groups.items()},
        merged=_differing(groups.values(), {*rows, *columns}),
    )


def axes_of(runs: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(axis for run in runs for axis in run.get("axes") or {}))


def find_metric(said: str, runs: Iterable[Mapping[str, Any]]) -> str:
    """The metric of this name, or the only one that has it as a part."""
    measured = (item for run in runs for item in run["metrics"].items())
    names: list[str] = list(dict.fromkeys(name for name, value in measured if _is_number(value)))
    if said in names:
        return said
    found = [name for name in names if said in name]
    if len(found) == 1:
        return found[0]
    near = found or get_close_matches(said, names, n=5) or names[:20]
    problem = f"{len(found)} metrics have {said!r} in their names" if found else f"no run has the metric {said!r}"
    raise BenchError(f"{problem}; there are: {', '.join(near) or 'none'}")


def _check_axes(said: Sequence[str], runs: Sequence[Mapping[str, Any]]) -> None:
    known = [*axes_of(runs), *_OF_EVERY_RUN]
    if unknown := [axis for axis in said if axis not in known]:
        raise BenchError(f"no run has the axis {', '.join(unknown)}; there are: {', '.join(known)}")


def _has(run: Mapping[str, Any], axes: Iterable[str]) -> bool:
    return all(_value(run, axis) is not None for axis in axes)


def _value(run: Mapping[str, Any], axis: str) -> str | None:
    found = (run.get("axes") or {}).get(axis)
    if found is None and axis in _OF_EVERY_RUN:
        found = run.get(axis) or run["name"].partition("[")[0]
    return None if found is None else str(found)


def _key(run: Mapping[str, Any], axes: Iterable[str]) -> Key:
    return tuple(str(_value(run, axis)) for axis in axes)


def _cell(group: Sequence[Mapping[str, Any]], metric: str, summary: str) -> Cell:
    """Of a run that crashed or was stopped, no number counts: it did not do the work."""
    values = [run["metrics"].get(metric) for run in group if run["verdict"] in _HAVE_METRICS]
    numbers = [float(value) for value in values if _is_number(value)]
    not_passed = tuple(str(run["verdict"]) for run in group if run["verdict"] != Verdict.PASSED)
    return Cell(SUMMARIES[summary](numbers) if numbers else None, len(group), not_passed)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _differing(groups: Iterable[Sequence[Mapping[str, Any]]], shown: set[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for group in groups:
        for axis in ["entry", *axes_of(group)]:
            if axis not in shown and len({_value(run, axis) for run in group}) > 1:
                found[axis] = None
    return tuple(found)


def _naturally(key: Key) -> list[list[tuple[int, float, str]]]:
    """2k before 16k, and numbers before words."""
    return [
        [(0, float(part), "") if number % 2 else (1, 0.0, part) for number, part in enumerate(_DIGITS.split(text))]
        for text in key
    ]


def _short(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
