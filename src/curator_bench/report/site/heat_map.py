"""The map of the overview: which entries were better or worse than their level at that time, in the last sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from curator_bench.report.site.memory import EntryMemory
from curator_bench.report.site.model import SessionFacts, SiteEntry

_SESSIONS = 30
_ROWS = 30
_SHADES = (0.10, 0.25)
"""A change by less than the first is light, by more than the last dark."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The change of an entry in a session that stands out most; above 0 is worse."""

    metric: str
    change: float

    @property
    def shade(self) -> str:
        level = 1 + sum(abs(self.change) >= limit for limit in _SHADES)
        return f"{'worse' if self.change > 0 else 'better'}-{level}"


@dataclass(frozen=True, slots=True)
class Column:
    """A session, and how many of the entries it ran stand out."""

    session: SessionFacts
    worse: int
    better: int
    measured: int
    not_fine: int

    @property
    def share(self) -> int:
        """The share of entries that are worse, in per cent."""
        return round(100 * self.worse / self.measured) if self.measured else 0


@dataclass(frozen=True, slots=True)
class Row:
    """An entry; None where it was not measured, an empty text where nothing stands out."""

    entry: SiteEntry
    cells: Sequence[Cell | str | None]


@dataclass(frozen=True, slots=True)
class HeatMap:
    columns: Sequence[Column]
    rows: Sequence[Row]
    """The entries that stand out most often."""
    quiet: int
    """The number of other entries."""


def heat_map(entries: Sequence[EntryMemory], sessions: Sequence[SessionFacts]) -> HeatMap:
    """Return the map of the last sessions that ran anything."""
    shown = [session for session in sessions if session.runs][-_SESSIONS:]
    rows = [_row(entry, shown) for entry in entries]
    columns = [_column(session, [row.cells[place] for row in rows]) for place, session in enumerate(shown)]
    loud = sorted((row for row in rows if _weight(row)), key=lambda row: (-_weight(row), row.entry))[:_ROWS]
    return HeatMap(columns, loud, len(rows) - len(loud))


def _row(entry: EntryMemory, sessions: Sequence[SessionFacts]) -> Row:
    found: dict[str, Cell | str] = {}
    for group in entry.groups:
        for uid, (change, metric, stands_out) in group.cells.items():
            found[uid] = Cell(metric, change) if stands_out else found.get(uid, "")
    return Row(entry.status.entry, [found.get(session.uid) for session in sessions])


def _column(session: SessionFacts, cells: Sequence[Cell | str | None]) -> Column:
    found = [cell for cell in cells if isinstance(cell, Cell)]
    worse = sum(cell.change > 0 for cell in found)
    fine = sum(session.verdicts.get(verdict, 0) for verdict in ("passed", "skipped", "running"))
    measured = sum(cell is not None for cell in cells)
    return Column(session, worse, len(found) - worse, measured, sum(session.verdicts.values()) - fine)


def _weight(row: Row) -> float:
    """Return how much an entry stands out; changes for the worse count more."""
    found = [cell for cell in row.cells if isinstance(cell, Cell)]
    return sum(2.0 if cell.change > 0 else 1.0 for cell in found)
