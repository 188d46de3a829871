"""The rule that decides which runs are one history: those of one entry, one kind of machine, and one series.

The series of a run is the series hash of its definition. While no run of its definition has recorded one, as in
databases of older releases, it is the definition hash. Runs without a definition are a series, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, func, select

from curator_bench.store.tables import DEFINITIONS, RUNS


def _of_definition(column: str) -> Any:
    found = select(DEFINITIONS.c[column]).where(DEFINITIONS.c.uid == RUNS.c.definition_hash).scalar_subquery()
    return func.coalesce(found, func.nullif(RUNS.c.definition_hash, "")).label(column)


SERIES = _of_definition("series_hash")
"""The series of a run, as a column of a statement on runs."""
CONTENT = _of_definition("content_hash")
"""What tells whether the definition changed within a series, without comments and formatting of its code."""


def identities(connection: Connection, series: Collection[str | None]) -> dict[str, dict[str, str]]:
    """Read the facts that define each of these series, for messages. Series of older releases are not known."""
    known = select(DEFINITIONS.c.series_hash, DEFINITIONS.c.content).order_by(DEFINITIONS.c.id)
    found = connection.execute(known.where(DEFINITIONS.c.series_hash.in_([one for one in series if one])))
    return {hashed: identity_of(content) for hashed, content in found}


def identity_of(content: Mapping[str, Any]) -> dict[str, str]:
    """Return those parts of a definition's content that are hashed into its series, by the names people use."""
    ray = content.get("ray") or {}
    parts = {
        "arguments": " ".join(map(str, content.get("args", ()))),
        "datasets": ", ".join(map(str, content.get("datasets", ()))),
        "parameters": ", ".join(f"{name}={value}" for name, value in content.get("parameters", {}).items()),
        "CPUs": _amount(ray.get("num_cpus")),
        "GPUs": _amount(ray.get("num_gpus")),
    }
    return {name: text for name, text in parts.items() if text}


def _amount(value: float | None) -> str:
    return "" if value is None else f"{value:g}"
