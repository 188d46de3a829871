"""Prints what a session of these benchmarks found as one table: a column for each rule, the best of a row in bold.

python benchmarks/statistics/table.py results/SESSION
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from detectors import DETECTORS
from generated_series import FAMILIES

Figures = Mapping[str, float]
_OVERALL = {
    "false_alarms_per_1000": "false alarms per 1,000, all families",
    "found_10_percent_in_2_runs": "+10 % within 2 runs, all families",
    "found_10_percent_in_2_runs_normal_lognormal": "+10 % within 2 runs, normal and lognormal",
    "found_5_percent_in_6_runs": "+5 % within 6 runs, all families",
}
_BY_FAMILY = {
    "false_alarms_per_1000": "false alarms per 1,000",
    "found_10_percent": "+10 % within 2 runs",
    "found_5_percent": "+5 % within 6 runs",
}


def table(found: Mapping[str, Figures]) -> list[str]:
    """In Markdown. `found` are the figures by rule."""
    rows = dict(_OVERALL)
    rows |= {f"{key}_{family}": f"{title}, {family}" for key, title in _BY_FAMILY.items() for family in FAMILIES}
    lines = [f"| | {' | '.join(found)} |", f"|---|{'--:|' * len(found)}"]
    return lines + [f"| {title} | {' | '.join(_cells(key, list(found.values())))} |" for key, title in rows.items()]


def _cells(key: str, figures: Sequence[Figures]) -> list[str]:
    values = [one[key] for one in figures]
    is_count = key.startswith("false")
    best = min(values) if is_count else max(values)
    shown = [f"{value:.1f}" if is_count else f"{value:.1%}" for value in values]
    return [f"**{text}**" if value == best else text for text, value in zip(shown, values, strict=True)]


def read(session: Path) -> dict[str, Figures]:
    found = {}
    for params in session.rglob("benchmark_results/params.json"):
        detector = json.loads(params.read_text()).get("detector")
        if detector is not None:
            found[detector] = json.loads(params.with_name("metrics.json").read_text())
    return {name: found[name] for name in DETECTORS if name in found}


if __name__ == "__main__":
    print("\n".join(table(read(Path(sys.argv[1])))))
