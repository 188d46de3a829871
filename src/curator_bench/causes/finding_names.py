"""Findings and series as people name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from curator_bench.words import change, how_many

if TYPE_CHECKING:
    from curator_bench.causes.findings import RecordedFinding


def what(finding: RecordedFinding, *, names_machine: bool = True) -> str:
    """Return the most important change of a finding, and how much else it explains."""
    one = finding.largest
    name = series_name(one.entry.name, one.metric, one.machine_id if names_machine else None)
    return f"{name} {change(one.step.change)}{_besides(finding)}"


def _besides(finding: RecordedFinding) -> str:
    """Count the other entries, metrics and machines, where there are any."""
    steps = finding.steps
    counts = (
        (len({one.entry for one in steps}) - 1, "other entry", "other entries"),
        (len({one.metric for one in steps}) - 1, "other metric", "other metrics"),
        (len({one.machine_id for one in steps}) - 1, "other machine", "other machines"),
    )
    *first, last = [how_many(*count) for count in counts if count[0]] or [""]
    return f", with {' and '.join(filter(None, [', '.join(first), last]))}" if last else ""


def series_name(entry: str, metric: str, machine: str | None) -> str:
    return f"{entry} {metric}{f' on {machine}' if machine else ''}"
