"""A session as a table of one metric, whose rows and columns are the values of axes."""

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

from curator_bench.errors import BenchError
from curator_bench.files.codec import text_of
from curator_bench.values import MACHINE, RunRecord, Verdict
from curator_bench.words import csv_cells, markdown_cell, printable

_OF_EVERY_RUN = ("entry", "verdict", "host")
_HAVE_METRICS = (Verdict.PASSED, Verdict.FAILED)
_DIGITS = re.compile(r"(\d+(?:\.\d+)?)")
_NOT_ALL = "*"
_MOST_NAMES = 5
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
    """The runs of one row and column."""

    value: float | None
    """None if no run has the metric."""
    numbers: int
    """The number of runs in the value."""
    not_passed: tuple[str, ...] = ()
    """The verdicts of runs that did not pass."""
    not_finite: tuple[str, ...] = ()
    """NaN and infinite values of runs, as text. They do not count in the value."""
    without: int = 0
    """The number of passed runs without the metric."""

    def text(self, number: Callable[[float], str]) -> str:
        """Return the value, with a star if some runs do not count in it; without a value, the runs' verdicts."""
        return self.words() if self.value is None else number(self.value) + (_NOT_ALL if self.is_of_some else "")

    def words(self) -> str:
        return ", ".join(sorted({*self.not_finite, *self.not_passed})) or str(Verdict.PASSED)

    @property
    def is_of_some(self) -> bool:
        return bool(self.not_passed or self.not_finite or self.without)


@dataclass(frozen=True, slots=True)
class Pivot:
    """A table: `cells[row, column]`. A pair without runs has no cell."""

    metric: str
    summary: str
    rows: tuple[str, ...]
    """The axes of the rows."""
    columns: tuple[str, ...]
    row_keys: tuple[Key, ...]
    column_keys: tuple[Key, ...]
    cells: Mapping[tuple[Key, Key], Cell]
    merged: tuple[str, ...] = ()
    """Axes with several values within a cell."""
    unmeasured: tuple[str, ...] = ()
    """Entries without a finished run, so that it is unknown whether they have the metric."""

    def heads(self) -> list[str]:
        return [printable(head) for head in self._heads()]

    def _heads(self) -> list[str]:
        return [*self.rows, *(" / ".join(key) or self.metric for key in self.column_keys)]

    def lines(self, number: Callable[[float], str]) -> list[list[str]]:
        """Return the table's rows: the values of the row's axes, then its cells."""
        return [[*map(printable, row), *self._texts(row, number)] for row in self.row_keys]

    def _texts(self, row: Key, number: Callable[[float], str]) -> list[str]:
        found = (self.cells.get((row, column)) for column in self.column_keys)
        return [cell.text(number) if cell else "" for cell in found]

    def notes(self) -> list[str]:
        """Return remarks that help to read the numbers."""
        most = max((cell.numbers for cell in self.cells.values()), default=0)
        notes = [f"{self.metric}, {self.summary} of up to {most} runs in a cell"] if most > 1 else [self.metric]
        if self.merged:
            notes.append(f"each cell combines all values of {', '.join(self.merged)}")
        starred = [cell for cell in self.cells.values() if cell.value is not None and cell.is_of_some]
        if any(cell.not_finite or cell.without for cell in starred):
            notes.append(f"{_NOT_ALL} not all of its runs passed with a number; those without one do not count")
        elif starred:
            notes.append(f"{_NOT_ALL} not all of its runs passed")
        if self.unmeasured:
            more = len(self.unmeasured) - _MOST_NAMES
            names = ", ".join(map(printable, self.unmeasured[:_MOST_NAMES])) + (f" and {more} more" if more > 0 else "")
            notes.append(f"no run of {names} gave a number; their verdicts are shown in otherwise empty cells")
        return notes

    def as_markdown(self) -> str:
        ruler = ["---"] * len(self.rows) + ["---:"] * len(self.column_keys)
        lines = [[*map(markdown_cell, [*map(printable, row)]), *self._texts(row, _short)] for row in self.row_keys]
        rows = [[markdown_cell(head) for head in self.heads()], ruler, *lines]
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)

    def as_csv(self) -> str:
        """Return the table as CSV, with full numbers and no stars.

        A cell without a value shows verdicts. A cell without runs is empty.
        """
        written = io.StringIO()
        writer = csv.writer(written, lineterminator="\n")
        writer.writerow(csv_cells(self._heads()))
        for row in self.row_keys:
            found = (self.cells.get((row, column)) for column in self.column_keys)
            cells = ("" if cell is None else cell.words() if cell.value is None else cell.value for cell in found)
            writer.writerow(csv_cells([*row, *cells]))
        return written.getvalue().rstrip("\n")

    def _repr_markdown_(self) -> str:
        """Show the table and its notes in a notebook."""
        return "\n\n".join([self.as_markdown(), "; ".join(self.notes())])


def pivot(
    runs: Iterable[RunRecord],
    *,
    metric: str,
    rows: Sequence[str],
    columns: Sequence[str] = (),
    summary: str = "median",
) -> Pivot:
    """Return the table. Runs without one of the axes, and runs of entries without the metric, are left out.

    If none of an entry's runs finished, it is unknown whether it has the metric. Such runs get cells too.
    """
    asked = [*rows, *columns]
    all_runs = [run for run in runs if run.verdict is not Verdict.SKIPPED]
    _check_axes(asked, all_runs)
    metric = find_metric(metric, all_runs)
    measuring = {run.entry for run in all_runs if _is_to_have(run, metric)}
    groups = _grouped((run for run in all_runs if run.entry in measuring), rows, columns)
    if not groups:
        raise BenchError(_no_run_with(metric, asked, [run for run in all_runs if run.entry in measuring]))
    ended = {run.entry for run in all_runs if run.verdict in _HAVE_METRICS}
    unknown = [run for run in all_runs if run.entry not in measuring | ended]
    unmeasured = _grouped(unknown, rows, columns)
    groups = {**unmeasured, **groups}
    return Pivot(
        metric=metric,
        summary=summary,
        rows=tuple(rows),
        columns=tuple(columns),
        row_keys=tuple(sorted({row for row, _ in groups}, key=naturally)),
        column_keys=tuple(sorted({column for _, column in groups}, key=naturally)),
        cells={place: _cell(group, metric, summary) for place, group in groups.items()},
        merged=_differing(groups.values(), set(asked)),
        unmeasured=() if "entry" in asked else _entries_of(unmeasured.values()),
    )


def _grouped(
    runs: Iterable[RunRecord], rows: Sequence[str], columns: Sequence[str]
) -> dict[tuple[Key, Key], list[RunRecord]]:
    """Group the runs that have all of the axes by row and column."""
    groups: dict[tuple[Key, Key], list[RunRecord]] = defaultdict(list)
    for run in runs:
        if _has(run, [*rows, *columns]):
            groups[_key(run, rows), _key(run, columns)].append(run)
    return dict(groups)


def _is_to_have(run: RunRecord, metric: str) -> bool:
    """True if the run has the metric or a requirement on it."""
    return metric in run.metrics or any(check.metric == metric for check in run.requirements)


def _entries_of(groups: Iterable[Sequence[RunRecord]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(_value(run, "entry")) for group in groups for run in group))


def _no_run_with(metric: str, axes: Sequence[str], measuring: Sequence[RunRecord]) -> str:
    asked = f"both {' and '.join(axes)}" if len(axes) > 1 else f"the axis {axes[0]}"
    known = ", ".join([*axes_of(measuring), *_OF_EVERY_RUN])
    return f"no run that measures {metric} has {asked}; the axes of those that do: {known}"


def axes_of(runs: Iterable[RunRecord]) -> list[str]:
    return list(dict.fromkeys(axis for run in runs for axis in run.axes))


def find_metric(said: str, runs: Iterable[RunRecord]) -> str:
    """Return the metric of this name, or else the only one (not of what the machine did) whose name contains it."""
    measured = (item for run in runs for item in run.metrics.items())
    names = list(dict.fromkeys(name for name, value in measured if isinstance(value, int | float)))
    if said in names:
        return said
    names = [name for name in names if not name.startswith(MACHINE)]
    found = [name for name in names if said in name]
    if len(found) == 1:
        return found[0]
    near = found or get_close_matches(said, names, n=5) or names[:20]
    problem = f"{len(found)} metrics have {said!r} in their names" if found else f"no run has the metric {said!r}"
    raise BenchError(f"{problem}; there are: {', '.join(near) or 'none'}")


def _check_axes(said: Sequence[str], runs: Sequence[RunRecord]) -> None:
    known = [*axes_of(runs), *_OF_EVERY_RUN]
    if unknown := [axis for axis in said if axis not in known]:
        raise BenchError(f"no run has the axis {', '.join(unknown)}; there are: {', '.join(known)}")


def _has(run: RunRecord, axes: Iterable[str]) -> bool:
    return all(_value(run, axis) is not None for axis in axes)


def _value(run: RunRecord, axis: str) -> str | None:
    found = run.axes.get(axis)
    if found is None and axis in _OF_EVERY_RUN:
        found = getattr(run, axis) or run.name.partition("[")[0]
    return None if found is None else str(found)


def _key(run: RunRecord, axes: Iterable[str]) -> Key:
    return tuple(str(_value(run, axis)) for axis in axes)


def _cell(group: Sequence[RunRecord], metric: str, summary: str) -> Cell:
    """Return one cell. Metrics of a run that crashed or was stopped do not count, because its work was not finished."""
    ended = [(run.verdict, run.metrics.get(metric)) for run in group if run.verdict in _HAVE_METRICS]
    figures = [float(value) for _, value in ended if isinstance(value, int | float)]
    numbers = [value for value in figures if math.isfinite(value)]
    return Cell(
        value=SUMMARIES[summary](numbers) if numbers else None,
        numbers=len(numbers),
        not_passed=tuple(str(run.verdict) for run in group if run.verdict is not Verdict.PASSED),
        not_finite=tuple(text_of(value) for value in figures if not math.isfinite(value)),
        without=sum(verdict is Verdict.PASSED and not isinstance(value, int | float) for verdict, value in ended),
    )


def _differing(groups: Iterable[Sequence[RunRecord]], shown: set[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for group in groups:
        for axis in ["entry", *axes_of(group)]:
            if axis not in shown and len({_value(run, axis) for run in group}) > 1:
                found[axis] = None
    return tuple(found)


def naturally(key: Key) -> list[list[tuple[int, float, str]]]:
    """Sort key of values of axes that puts 2k before 16k, and numbers before words."""
    return [
        [(0, float(part), "") if number % 2 else (1, 0.0, part) for number, part in enumerate(_DIGITS.split(text))]
        for text in key
    ]


def _short(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
