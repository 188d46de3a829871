"""Stages of runs: their rows, and the query of the stages of many runs at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, fields
from itertools import islice
from typing import Any

from sqlalchemy import Connection, select

from curator_bench.store.scalars import text_of, value_of
from curator_bench.store.tables import RUNS, STAGES
from curator_bench.values import Stage, StageKind

_MOST = 2**63 - 1
"""Largest integer a column can hold."""
_RUNS_AT_ONCE = 1_000
_NAMES = tuple(field.name for field in fields(Stage))
_COLUMNS = tuple(STAGES.c[name] for name in _NAMES)
assert tuple(STAGES.c.keys()) == ("run", "position", *_NAMES)  # `stage_of` reads a row by position


def stages_of(connection: Connection, uids: Collection[str]) -> dict[str, tuple[Stage, ...]]:
    """Read the stages of these runs by uid of the run, in the order in which they began.

    A run without stages, or one that is not recorded, is not among them.
    """
    found: dict[str, list[Stage]] = {}
    statement = select(RUNS.c.uid, *_COLUMNS).join(RUNS, RUNS.c.id == STAGES.c.run)
    rest = iter(dict.fromkeys(uids))
    while some := list(islice(rest, _RUNS_AT_ONCE)):
        chosen = statement.where(RUNS.c.uid.in_(some)).order_by(STAGES.c.run, STAGES.c.position)
        for uid, *values in connection.execute(chosen):
            found.setdefault(uid, []).append(stage_of(values))
    return {uid: tuple(stages) for uid, stages in found.items()}


def stage_of(values: Sequence[Any]) -> Stage:
    """Build a stage from its row without `run` and `position`."""
    row = dict(zip(_NAMES, values, strict=True))
    return Stage(**{**row, "kind": StageKind(row["kind"]), "parts": _parts_of(row["parts"])})


def rows_of(run: int, stages: Iterable[Stage]) -> list[dict[str, Any]]:
    """Values of the rows of a run's stages."""
    return [{"run": run, "position": position, **_values_of(stage)} for position, stage in enumerate(stages)]


def _values_of(stage: Stage) -> dict[str, Any]:
    values = {name: min(value, _MOST) if isinstance(value, int) else value for name, value in asdict(stage).items()}
    return {**values, "kind": str(stage.kind), "parts": text_of(list(stage.parts)) if stage.parts else None}


def _parts_of(text: str | None) -> tuple[str, ...]:
    found = value_of(text) if text is not None else ()
    return tuple(map(str, found)) if isinstance(found, list) else ()
