"""Judges the newest runs of one entry by metric, with the rules of gates, `regressions` and the dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from curator_bench.metric_names import in_order
from curator_bench.store.all_series import declared_directions
from curator_bench.store.gate_history import MEASURED
from curator_bench.store.queries import EntryKey, history
from curator_bench.verdict.cases import History, Rules
from curator_bench.verdict.direction import better_of
from curator_bench.verdict.gates import number
from curator_bench.verdict.judgement import Judgement
from curator_bench.verdict.trends import trends

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection


def newest_judgements(
    connection: Connection, entry: EntryKey, among: ColumnElement[bool] | None = None
) -> Mapping[str, Judgement]:
    """Return the judgement of each directed metric, over the runs comparable with the newest one (of those `among`)."""
    found_runs = history(connection, entry, among=among)
    runs = [run for run in found_runs if run.verdict in MEASURED and not run.disturbed]
    if not runs:
        return {}
    kind = runs[-1].machine_id, runs[-1].series_hash
    alike = [run.metrics for run in runs if (run.machine_id, run.series_hash) == kind]
    declared = declared_directions(connection)
    directions = {
        name: better_of(name, declared.get((entry.name, entry.path, name)))
        for name in in_order({name for metrics in alike for name in metrics}, ())
    }
    asked = {}
    for name, better in directions.items():
        values = [value for metrics in alike if (value := number(metrics.get(name))) is not None]
        if better is not None and values:
            asked[name] = History(np.array(values, dtype=np.float64), Rules(better))
    found = trends(list(asked.values()))
    return {name: trend.newest for name, trend in zip(asked, found, strict=True)}
