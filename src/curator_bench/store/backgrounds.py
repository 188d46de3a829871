"""Definitions and facts of runs: read for comparisons and exports, deleted when no run refers to them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from sqlalchemy import Connection, Select, delete, select

from curator_bench.store.records import Background, DefinitionRecord, RunStart
from curator_bench.store.rows import SOURCES
from curator_bench.store.tables import DEFINITIONS, FACTS, RUNS

_AT_ONCE = 500


class Backgrounds:
    """The recorded backgrounds of runs. Each fact is read once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._facts: dict[str, Any] = {}
        self._told: set[str] = set()

    def of(self, definition_hash: str | None, circumstances: str | None) -> Background:
        """Read what a run was measured with. What was not recorded is missing."""
        named = self._fact(circumstances) or {}
        facts = {kind: fact for kind, uid in named.items() if (fact := self._fact(uid)) is not None}
        return Background(self._definition(definition_hash), facts)

    def new(self, start: RunStart) -> Background:
        """Read what no earlier call returned, for exports in which each definition is told once."""
        found = self.of(start.definition_hash, start.circumstances)
        definition = None if start.definition_hash in self._told else found.definition
        circumstances = {} if start.circumstances in self._told else found.circumstances
        self._told |= {uid for uid in (start.definition_hash, start.circumstances) if uid}
        return Background(definition, circumstances)

    def _definition(self, uid: str | None) -> DefinitionRecord | None:
        if not uid:
            return None
        row = self._connection.execute(select(DEFINITIONS).where(DEFINITIONS.c.uid == uid)).first()
        if row is None:
            return None
        content = dict(row.content)
        sources = {name: self._fact(text) for name, text in content.pop(SOURCES, {}).items()}
        texts = {name: text for name, text in sources.items() if isinstance(text, str)}
        return DefinitionRecord(row.uid, row.series_hash, row.content_hash, content, texts)

    def _fact(self, uid: str | None) -> Any:
        if uid is not None and uid not in self._facts:
            self._facts[uid] = self._connection.scalar(select(FACTS.c.content).where(FACTS.c.uid == uid))
        return self._facts[uid] if uid is not None else None


def forget_unused(connection: Connection) -> None:
    """Delete the definitions and facts that no run refers to."""
    used = select(RUNS.c.definition_hash).where(RUNS.c.definition_hash.is_not(None))
    connection.execute(delete(DEFINITIONS).where(DEFINITIONS.c.uid.not_in(used)))
    named = set(connection.scalars(select(RUNS.c.circumstances).where(RUNS.c.circumstances.is_not(None)).distinct()))
    kinds = [kinds for some in _in_lists(named) for kinds in connection.scalars(_contents_of(some))]
    sources = [content.get(SOURCES, {}) for content in connection.scalars(select(DEFINITIONS.c.content))]
    in_use = named.union(*(mapping.values() for mapping in (*kinds, *sources)))
    for some in _in_lists(set(connection.scalars(select(FACTS.c.uid))) - in_use):
        connection.execute(delete(FACTS).where(FACTS.c.uid.in_(some)))


def _contents_of(uids: Collection[str]) -> Select[Any]:
    return select(FACTS.c.content).where(FACTS.c.uid.in_(uids))


def _in_lists(uids: Iterable[str]) -> Iterator[list[str]]:
    ordered = sorted(uids)
    for first in range(0, len(ordered), _AT_ONCE):
        yield ordered[first : first + _AT_ONCE]
