"""Findings and series as people name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from curator_bench.words import change, how_many

if TYPE_CHECKING:
    from curator_bench.causes.findings import RecordedFinding


def what(finding: RecordedFinding) -> str:
    """Return the most important change of a finding, and how many others it explains."""
    one = finding.largest
    others = len(finding.steps) - 1
    more = f", and {how_many(others, 'more change')}" if others else ""
    return f"{series_name(one.entry.name, one.metric, one.machine_id)} {change(one.step.change)}{more}"


def series_name(entry: str, metric: str, machine: str | None) -> str:
    return f"{entry} {metric}{f' on {machine}' if machine else ''}"
