"""Judgements in the output of subcommands: cells of a table, notes below it, objects in JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from curator_bench import words
from curator_bench.cli import tables

if TYPE_CHECKING:
    from curator_bench.verdict.judgement import Judgement

ORDER = ("regression", "improvement", "inconclusive", "no change", "no history", "not comparable")
"""The order of rows, the most important first."""
_NAMED = 5


def place_of(says: str) -> int:
    """Return the sort key of a verdict."""
    return ORDER.index(says)


def visible(one: Judgement) -> str:
    """Return the smallest change that would have been detected, as a table cell."""
    if one.visible is None:
        return tables.NOTHING
    return words.visible(one.visible, _share)


def sight(one: Judgement) -> str:
    """Return text such as `noise of 9% and 6 runs: changes below 34% cannot be seen`; empty if that is unknown."""
    return "" if one.visible is None else words.sight(one.noise, one.history, one.visible, _share)


def _share(fraction: float) -> str:
    return tables.share(float(f"{fraction:.2g}"))


def limit_line(limit: float) -> str:
    """Say by which limit verdicts were judged, as gates have limits of their own."""
    return f"VERDICT is about changes of {tables.share(limit)} or more; gates judge by their own limits"


def document(one: Judgement) -> dict[str, Any]:
    """Return a judgement for JSON, with the same keys in every command."""
    return {
        "verdict": one.says,
        "reason": one.reason,
        "decides": one.decides,
        "before": one.before,
        "after": one.after,
        "change": one.change,
        "interval": None if one.interval is None else list(one.interval),
        "p_value": one.p_value,
        "history": one.history,
        "noise": one.noise,
        "visible": one.visible,
    }


def notes(rows: Sequence[tuple[str, Judgement]]) -> Iterator[str]:
    """Yield notes below a table: why metrics have no verdict, and what would decide the inconclusive ones.

    `rows` are pairs of a name and its judgement. Of many alike only the first few are named; those with the same
    reason share a line.
    """
    for says in ORDER:
        found = [(of, one) for of, one in rows if one.says == says and (one.decides or one.word is None)]
        by_reason = defaultdict[str, list[str]](list)
        for of, one in found[:_NAMED]:
            reason = "; ".join(filter(None, [one.reason, one.decides]))
            by_reason[reason.removeprefix(f"{says}: ")].append(of)
        for reason, names in by_reason.items():
            yield f"{says}: {', '.join(names)}: {reason}"
        if len(found) > _NAMED:
            yield f"… and {len(found) - _NAMED:,} more with {says}"
