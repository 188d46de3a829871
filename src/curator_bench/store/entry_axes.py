"""The axes of entries: their names, and the value of each in every combination.

They are recorded with the definition of a run. For other runs they are found among the run's parameters: those whose
values make up the part of the name in brackets.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlalchemy import Connection, select

from curator_bench.store.tables import DEFINITIONS, PARAMS, RUNS

AXES = "axes"
"""Key of a definition's content: the values of the entry's axes, by name."""
VARIANT = "variant"
"""The name of the only axis where none is recorded."""
_AT_ONCE = 500
_MOST_NAMINGS = 100

Axes = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Combination:
    """An entry with values of axes, and a run of it."""

    name: str
    path: str
    run: int

    @property
    def family(self) -> str:
        """The name without the values of axes."""
        return self.name.partition("[")[0]

    @property
    def variant(self) -> str:
        """The part of the name that tells the values."""
        return self.name.partition("[")[2].removesuffix("]")


def axes_of(connection: Connection, combinations: Sequence[Combination]) -> dict[tuple[str, str], Axes]:
    """Read the values of the axes of these entries, by name and path of the entry."""
    runs = [one.run for one in combinations]
    defined, params = _defined(connection, runs), _params(connection, runs)
    families: dict[tuple[str, str], list[Combination]] = defaultdict(list)
    for one in combinations:
        families[one.family, one.path].append(one)
    found: dict[tuple[str, str], Axes] = {}
    for family in families.values():
        unknown = [one for one in family if one.run not in defined]
        known = next((tuple(defined[one.run]) for one in family if one.run in defined), ())
        names = _named(unknown, params) if unknown else ()
        for one in family:
            values = defined.get(one.run) or _values(one, params.get(one.run, {}), names, known)
            found[one.name, one.path] = values
    return found


def _values(one: Combination, params: Axes, names: Sequence[str], known: Sequence[str]) -> Axes:
    """Return the values by the names of the parameters that tell them, else by those of the other combinations."""
    if names:
        return {name: params[name] for name in names}
    parts = one.variant.split("-")
    return dict(zip(known, parts, strict=True)) if known and len(parts) == len(known) else {VARIANT: one.variant}


def _defined(connection: Connection, runs: Sequence[int]) -> dict[int, Axes]:
    statement = select(RUNS.c.id, DEFINITIONS.c.content).join(DEFINITIONS, DEFINITIONS.c.uid == RUNS.c.definition_hash)
    rows = (row for some in _parts(runs) for row in connection.execute(statement.where(RUNS.c.id.in_(some))))
    return {run: axes for run, content in rows if (axes := _of_definition(content))}


def _of_definition(content: Mapping[str, Any]) -> Axes:
    """Return the axes of an entry, or else the parameters of a Python benchmark, which are recorded as source text."""
    if axes := content.get(AXES):
        return {str(name): str(value) for name, value in axes.items()}
    return {str(name): _plain(str(value)) for name, value in content.get("parameters", {}).items()}


def _plain(source: str) -> str:
    try:
        return str(ast.literal_eval(source))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return source


def _params(connection: Connection, runs: Sequence[int]) -> dict[int, dict[str, str]]:
    found: dict[int, dict[str, str]] = defaultdict(dict)
    for some in _parts(runs):
        for run, name, value in connection.execute(select(PARAMS).where(PARAMS.c.run.in_(some))):
            found[run][name] = str(value)
    return found


def _named(family: Sequence[Combination], params: Mapping[int, Axes]) -> Sequence[str]:
    """Return names of parameters whose values are the variant of each of these entries; empty if there are none."""
    first, *others = family
    namings = _namings(first.variant, params.get(first.run, {}))
    for names in islice(namings, _MOST_NAMINGS):
        if all(_tells(names, params.get(one.run, {}), one.variant) for one in others):
            return names
    return ()


def _namings(variant: str, params: Axes, taken: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the ways to write the variant as values of parameters with dashes between them."""
    for name, value in sorted(params.items()):
        if name not in taken and value:
            if variant == value:
                yield (*taken, name)
            elif variant.startswith(f"{value}-"):
                yield from _namings(variant[len(value) + 1 :], params, (*taken, name))


def _tells(names: Sequence[str], params: Axes, variant: str) -> bool:
    return "-".join(params.get(name, "") for name in names) == variant


def _parts(runs: Sequence[int]) -> Iterator[Collection[int]]:
    for first in range(0, len(runs), _AT_ONCE):
        yield runs[first : first + _AT_ONCE]
