"""Text for people: numbers, times, requirements; and safe cells for terminals, Markdown and spreadsheets."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from curator_bench.masking import without_escape_sequences
from curator_bench.values import GATES, Check, Scalar

NOTHING = "-"
"""Shown for what is not known."""
_SECONDS = ("_s", "_seconds")
_BYTES = ("_bytes",)
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_LONGEST_TEXT = 200
_DOUBLED, _TENFOLD, _THOUSANDFOLD = 1, 9, 999
"""The changes, as fractions, to twice, ten times and a thousand times as much."""
_BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_MARKUP = re.compile(r"[\\|`*\[\]~]|(?<![^\W_])_|_(?![^\W_])")  # an underscore within a word is no markup


def csv_cells(row: Iterable[Any]) -> list[Any]:
    """Return the cells of a CSV line. A text that a spreadsheet would take for a formula gets a ' in front."""
    return [_csv_text(cell) if isinstance(cell, str) else cell for cell in row]


def _csv_text(text: str) -> str:
    """Return the text with \\n as its only line end: a lone \\r is left unquoted, and readers begin a row there."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if _is_formula(text) else text


def _is_formula(text: str) -> bool:
    if not text.startswith(_BEGINS_A_FORMULA):
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False  # -1.5 is a number


def readable_seconds(seconds: float) -> str:
    """Return seconds as `23 µs`, `2.3 ms`, `0.42 s`, `4.20 s`, `45.2 s`, `3 min 05 s`, `1 h 02 min`."""
    for unit, size in (("µs", 1e-6), ("ms", 1e-3)):
        if 0 < seconds < 100 * size and seconds < 0.1:
            return f"{seconds / size:.3g} {unit}"
    if seconds < 1:
        return f"{seconds:.3g} s"
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def multiple(fraction: float) -> str:
    """Return a change of tenfold or more as `×12`, or as `over ×1,000`; empty if it is smaller."""
    if fraction < _TENFOLD:
        return ""
    return f"×{1 + fraction:,.0f}" if fraction <= _THOUSANDFOLD else "over ×1,000"


def visible(fraction: float, share: Callable[[float], str]) -> str:
    """Return the smallest change that can be seen; from tenfold on its size is of no use to anybody."""
    return share(fraction) if fraction < _TENFOLD else "over ×10"


def sight(noise: float | None, runs: int, fraction: float, share: Callable[[float], str]) -> str:
    """Return what a judgement could not have seen: `noise of 9 % and 6 runs: changes below 34 % cannot be seen`."""
    by = f"{'' if noise is None else f'noise of {share(noise)} and '}{runs} run{'' if runs == 1 else 's'}"
    if fraction > _DOUBLED:
        return f"too noisy to judge: with {by}, even twice as much may be missed"
    return f"{by}: changes below {share(fraction)} cannot be seen"


def change(fraction: float | None) -> str:
    """Return a change such as `+8.2%` or `×12`, or `from zero` if the value before was zero."""
    if fraction is None or fraction != fraction:
        return NOTHING
    return (multiple(fraction) or f"{fraction:+.1%}") if abs(fraction) < float("inf") else "from zero"


def how_many(count: int, what: str, whats: str | None = None) -> str:
    return f"{count:,} {what if count == 1 else whats or what + 's'}"


def readable_bytes(size: float) -> str:
    """Return a size such as `512 B` or `1.50 GiB`."""
    for unit in _UNITS:
        if abs(size) < 1024 or unit == _UNITS[-1]:
            return f"{size:,.0f} B" if unit == "B" else f"{size:,.2f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def is_in_bytes(metric: str) -> bool:
    """True if the name of the metric says that its values are bytes."""
    return metric.endswith(_BYTES) and "per_" not in metric


def readable(metric: str, value: Scalar) -> str:
    """Return the value of a metric as text. The name tells whether it is seconds or bytes."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else value[: _LONGEST_TEXT - 1] + "…"
    if not math.isfinite(value):
        return str(value)
    if is_in_bytes(metric):
        return readable_bytes(value)
    if metric.endswith(_SECONDS) and "per_" not in metric and value >= 0:
        return readable_seconds(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if 10_000 <= abs(value) < 1e15 else f"{value:,.4g}"


def printable(text: str) -> str:
    """Return the text on one line, with control characters escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def printable_lines(text: str) -> str:
    """Return the text with its lines, without colours and other escape sequences of terminals.

    Other control characters are escaped: texts of scripts and databases must not command a terminal.
    """
    lines = without_escape_sequences(text).expandtabs().split("\n")
    return "\n".join(printable(line.removesuffix("\r")) for line in lines)


def markdown_cell(text: str) -> str:
    """Return the text as a Markdown cell, with markup and mentions escaped, since names come from anywhere."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(r"\\\g<0>", line).replace("@", "&#64;")


def code_block(lines: Sequence[str], language: str = "") -> list[str]:
    """Return the lines as a block of Markdown, which nothing in them can end."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", "".join(lines))), default=0))
    return [f"{fence}{language}", *map(printable, lines), fence]


def bound_of(check: Check) -> str:
    """Return the bound of a requirement, such as `max_value 60 s` or `max_regression 10 %`."""
    is_share = check.bound in GATES and isinstance(check.limit, int | float)
    limit = f"{100 * float(check.limit or 0):.3g} %" if is_share else readable(check.metric, check.limit)
    return f"{check.bound} {limit}"


def check_line(check: Check) -> str:
    """Return a check in one line, such as `sort_time_s is 4.21 s: regression (max_regression 10 %)`."""
    actual = "missing" if check.missing else readable(check.metric, check.actual)
    says = check.says or ("inconclusive" if check.is_inconclusive else "")
    if not says:
        return f"{check.metric} is {actual}, {bound_of(check)}"
    line = f"{check.metric} is {actual}: {says} ({bound_of(check)})"
    return f"{line}: {check.note}" if check.note else line
