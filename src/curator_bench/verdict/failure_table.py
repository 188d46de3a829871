"""A text table of the checks of a run: which bounds were missed, and by how much."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from decimal import Decimal
from itertools import zip_longest

from curator_bench.values import Check, Scalar
from curator_bench.words import printable

_HEADER = ("metric", "bound", "actual", "off by")
_GATES = {"max_regression": "worse", "max_drift": "drift"}
_SIGNS = {"max_regression": "<=", "max_drift": "<=", "min_value": ">=", "max_value": "<=", "exact_value": "=="}
_GAP = "  "
_NARROWEST = 60
# The largest shares of the width for the columns after the first. The metric's name gets the rest.
_LARGEST_SHARES = (0.28, 0.2, 0.24)
_LONGEST_TEXT = 60
_PLAIN_BELOW = 10**15
_WHOLE_ABOVE = 10**6
_MOST_DIGITS = 10**40


def failure_table(checks: Sequence[Check], *, width: int = 80) -> str:
    """Make a table of all checks with notes: unmet ones first, then inconclusive ones. No line exceeds `width`."""
    width = max(width, _NARROWEST)
    ordered = sorted(checks, key=lambda check: (not check.is_unmet, not check.is_inconclusive))
    rows = [_cells(check) for check in ordered]
    widths = _column_widths([_HEADER, *rows], width)
    lines = _lines_of(_HEADER, widths)
    for check, row in zip(ordered, rows, strict=True):
        lines += _lines_of(row, widths)
        lines += textwrap.wrap(printable(check.note), width, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines)


def readable(value: Scalar) -> str:
    """Format a value: thousands separated, six significant digits, true and false as in YAML."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return printable(f'"{value}"' if len(value) <= _LONGEST_TEXT else f'"{value[:_LONGEST_TEXT]}…"')
    return _readable_whole(value) if isinstance(value, int) else _readable_float(value)


def _readable_whole(value: int) -> str:
    return f"{value:,}" if abs(value) < _PLAIN_BELOW else f"{Decimal(value):.5e}"


def _readable_float(value: float) -> str:
    return f"{value:,.0f}" if _WHOLE_ABOVE <= abs(value) < _PLAIN_BELOW else f"{value:,.6g}"


def _in_full(value: Scalar) -> str:
    """Format a value with all digits, for two values that `readable` shows alike."""
    if isinstance(value, float):
        return float.__repr__(value)
    is_short = isinstance(value, int) and abs(value) < _MOST_DIGITS
    return f"{value:,}" if is_short else readable(value)


def _cells(check: Check) -> tuple[str, str, str, str]:
    limit, actual = readable(check.limit), readable(check.actual)
    if limit == actual and check.off_by is not None:
        limit, actual = _in_full(check.limit), _in_full(check.actual)
    if check.bound in _GATES and isinstance(check.limit, int | float):
        limit = f"{percent(check.limit) if check.limit else '0 %'} {_GATES[check.bound]}"
    around = "" if check.tolerance is None else f" ± {readable(check.tolerance)}"
    bound = f"{_SIGNS.get(check.bound, check.bound)} {limit}{around}"
    return (printable(check.metric) or '""', bound, "missing" if check.missing else actual, _off_by(check))


def _off_by(check: Check) -> str:
    if check.is_inconclusive:
        return "inconclusive"
    if check.says:
        return check.says if check.off_by_fraction is None else f"{check.says}, {percent(check.off_by_fraction)}"
    if check.met:
        return "met"
    if check.off_by is None:
        return "-"
    share = check.off_by_fraction
    return readable(check.off_by) + (f" ({percent(share)})" if share is not None and math.isfinite(share) else "")


def percent(fraction: float) -> str:
    """Format a percentage with two significant digits."""
    hundredths = fraction * 100
    if hundredths < 0.01:
        return "< 0.01 %"
    return f"{hundredths:.2g} %" if hundredths < 10 or hundredths >= _WHOLE_ABOVE else f"{hundredths:,.0f} %"


def _column_widths(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """The width of each column. If the terminal is narrower, the later columns shrink before the names do."""
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    left = width - len(_GAP) * len(others)
    if first + sum(others) > left:
        others = [min(needed, int(share * width)) for needed, share in zip(others, _LARGEST_SHARES, strict=True)]
    return [min(first, left - sum(others)), *others]


def _lines_of(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """One row of the table, over as many lines as its longest cell needs."""
    columns = [_pieces(cell, width) for cell, width in zip(row, widths, strict=True)]
    return [
        _GAP.join(part.ljust(width) for part, width in zip(parts, widths, strict=True)).rstrip()
        for parts in zip_longest(*columns, fillvalue="")
    ]


def _pieces(text: str, width: int) -> list[str]:
    """Split the text into pieces of at most `width`, between the words of a name if possible."""
    return re.findall(rf".{{1,{width}}}$|.{{1,{width}}}(?<=[_. ])|.{{1,{width}}}", text)
