"""The output of subcommands: tables, numbers, times and sparklines. In a pipe it is plain aligned text."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import click

from curator_bench.values import Scalar, Verdict
from curator_bench.words import NOTHING as NOTHING
from curator_bench.words import change as change
from curator_bench.words import how_many as how_many
from curator_bench.words import is_in_bytes, printable_lines, readable_bytes

_STYLES = {str(Verdict.PASSED): "green", str(Verdict.SKIPPED): "yellow", "running": "cyan"} | {
    str(verdict): "red" for verdict in (Verdict.FAILED, Verdict.CRASHED, Verdict.TIMEOUT, Verdict.ERROR)
}
_STYLES |= {"regression": "red", "improvement": "green", "inconclusive": "yellow", "drift": "red"}

_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    right: bool = False
    """Numbers are aligned to the right."""


def columns(*titles: str) -> list[Column]:
    """Return columns of these titles. A title that begins with `>` is right-aligned."""
    return [Column(title.lstrip(">"), right=title.startswith(">")) for title in titles]


def print_table(heads: Sequence[Column], rows: Sequence[Sequence[str]], *, indent: int = 0) -> None:
    shown = [[printable(cell) or NOTHING for cell in row] for row in rows]
    if sys.stdout.isatty():
        _print_rich(heads, shown, indent)
    else:
        say("\n".join(" " * indent + line for line in _aligned(heads, shown)))


def say(text: str, *, nl: bool = True, err: bool = False) -> None:
    """Print a text. Control characters are escaped, and characters the terminal cannot show are replaced."""
    encoding = (sys.stderr if err else sys.stdout).encoding or "utf-8"
    click.echo(printable_lines(text).encode(encoding, "replace").decode(encoding), nl=nl, err=err)


def printable(text: str) -> str:
    """Return the first line without control characters, since names and errors come from scripts."""
    line = next(iter(text.strip().splitlines()), "")
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line)


def number(value: Scalar) -> str:
    """Return a number as people read it: 1,614 and 0.2213 and 1.2e-05."""
    if value is None:
        return NOTHING
    if isinstance(value, str | bool):
        return str(value).lower() if isinstance(value, bool) else printable(value)
    if value != value or abs(value) == float("inf"):
        return str(value)
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if 10_000 <= abs(value) < 1e15 else f"{value:,.4g}"


def measured(metric: str, value: Scalar) -> str:
    """Return the value of a metric as people read it: bytes with their unit, if its name says that it is in bytes."""
    if not is_in_bytes(metric) or value is None or isinstance(value, str | bool) or not math.isfinite(value):
        return number(value)
    return f"{number(value)} B" if abs(value) < 1024 else readable_bytes(value)


def time(moment: datetime | None) -> str:
    """Return a time to the second, in UTC."""
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment else NOTHING


def seconds(duration: float | None) -> str:
    from curator_bench.words import readable_seconds

    return NOTHING if duration is None else readable_seconds(duration)


def commit(sha: str | None, *, dirty: bool | None = False) -> str:
    return f"{sha[:8]}{'+' if dirty else ''}" if sha else NOTHING


def shortened(name: str) -> str:
    """Return a name with its middle left out if it is long."""
    half = _LONGEST_NAME // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[: half - 1]}…{name[-half:]}"


def share(fraction: float) -> str:
    """Return a share such as `3%` or `0.5%`."""
    return f"{100 * fraction:g}%"


def interval(fractions: tuple[float, float]) -> str:
    """Return an interval such as `+6.1% to +10.3%`; empty if the value before was zero."""
    if not all(map(math.isfinite, fractions)):
        return NOTHING
    low, high = fractions
    return f"{change(low)} to {change(high)}"


def counts(found: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{count} {what}" for what, count in found)


def sparkline(values: Sequence[float]) -> str:
    """Return one character per value, scaled from the lowest to the highest."""
    from curator_bench.report.sparkline import BARS, BARS_IN_ASCII, drawn

    return drawn(values, BARS if _can_show(BARS) else BARS_IN_ASCII)


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _aligned(heads: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[str]:
    all_rows = [[head.title for head in heads], *rows]
    widths = [max(len(row[place]) for row in all_rows) for place in range(len(heads))]
    return [
        "  ".join(
            cell.rjust(width) if head.right else cell.ljust(width)
            for cell, width, head in zip(row, widths, heads, strict=True)
        ).rstrip()
        for row in all_rows
    ]


def _print_rich(heads: Sequence[Column], rows: Sequence[Sequence[str]], indent: int) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for head in heads:
        table.add_column(Text(head.title), justify="right" if head.right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    Console(highlight=False).print(Padding(table, (0, 0, 0, indent), expand=False))
