"""Says which runs of a named kind of machine were much faster or slower than the rest, and on which model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from curator_bench.cli import tables
from curator_bench.store.machine_models import models_of_runs
from curator_bench.values.machines import is_machine_name
from curator_bench.verdict.direction import Better

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from curator_bench.causes.judged_history import JudgedSeries
    from curator_bench.store.queries import EntryKey
    from curator_bench.verdict.distributions import Bools, Floats

_MUCH = 0.10
_FEWEST = 3
"""The fewest runs on each side, within one level, to compare a model with the rest."""


def machine_hints(connection: Connection, series: Sequence[JudgedSeries]) -> Iterator[str]:
    """Yield a line for each model of a named kind of machine that is much faster or slower than the others of its name.

    Models are compared within levels, so a change of the code between them counts for neither.
    """
    models = models_of_runs(connection)
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one in series if models else ():
        for model, ratio in _ratios(one, models):
            found[str(one.series.machine_id), model].append(ratio)
    for (machine, model), ratios in sorted(found.items()):
        ratio = float(np.median(ratios))
        if ratio >= 1 + _MUCH or ratio <= 1 / (1 + _MUCH):
            slower = f"{ratio - 1:.0%} slower" if ratio > 1 else f"{1 / ratio - 1:.0%} faster"
            metrics = tables.how_many(len(ratios), "metric")
            differs = f"runs on {tables.printable(model)} are {slower} than the others of this name"
            yield f"Machine {machine} is not of one kind: {differs} (median of {metrics})"


def _ratios(one: JudgedSeries, models: Mapping[int, str]) -> Iterator[tuple[str, float]]:
    """Yield each model of the series, and how much slower it is than the rest, as a factor."""
    of_runs = np.array([models.get(run, "") for run in one.series.runs.tolist()])
    values = one.series.values
    places: Floats = np.where(values > 0, np.log(np.where(values > 0, values, 1.0)), np.nan)
    sign = -1.0 if one.better is Better.MORE else 1.0
    for model in sorted(set(of_runs.tolist()) - {""}):
        apart = [
            _apart(places[level.start : level.end], of_runs[level.start : level.end] == model)
            for level in one.trend.levels
        ]
        known = [each for each in apart if each is not None]
        if known:
            yield model, float(np.exp(sign * np.median(known)))


def _apart(places: Floats, is_model: Bools) -> float | None:
    """Return the distance of a model's runs from the other runs of its level; None if either are too few."""
    own, others = (side[np.isfinite(side)] for side in (places[is_model], places[~is_model]))
    return float(np.median(own) - np.median(others)) if min(len(own), len(others)) >= _FEWEST else None


def hints_of_entries(connection: Connection, entries: Collection[EntryKey]) -> list[str]:
    """Return the same lines, as far as the runs of these entries tell."""
    from curator_bench.causes.judged_history import Query, judge_history
    from curator_bench.store.all_series import groups_of

    groups = groups_of(connection, entries)
    named = {group for group in groups if group[-1] is not None and is_machine_name(group[-1])}
    return list(machine_hints(connection, judge_history(connection, Query(), named).series)) if named else []
