"""Definitions and facts of runs: read for comparisons and exports, deleted when no run refers to them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, delete, select

from curator_bench.store.records import Background, DefinitionRecord, RunStart
from curator_bench.store.rows import SOURCES
from curator_bench.store.tables import DEFINITIONS, FACTS, INVOCATIONS, PARAMS, RUNS, SESSIONS, SUBJECTS

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
        """Read what no earlier call returned. So an export contains each definition once."""
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


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Surroundings of a run as the tables have them, without its background."""

    definition_hash: str | None
    circumstances: str | None
    python_version: str | None
    commits: Mapping[str, str]
    """Commit, or version without one, of the repository (named "") and of each package under test."""
    changed: frozenset[str]
    """Names among `commits` that had changes that were not committed."""
    parameters: Mapping[str, str]
    environment: Mapping[str, Any]
    """Environment of its invocation, if that was on the run's host."""


def run_facts(connection: Connection, runs: Collection[int]) -> dict[int, RunFacts]:
    """Read what the tables say about these runs, by row id. Meant for a few runs."""
    columns = [RUNS.c[name] for name in ("id", "session", "definition_hash", "circumstances", "python_version", "node")]
    others = (SESSIONS.c.commit, SESSIONS.c.dirty, INVOCATIONS.c.environment, INVOCATIONS.c.host)
    statement = (
        select(*columns, *others)
        .join(SESSIONS, SESSIONS.c.id == RUNS.c.session)
        .join(INVOCATIONS, INVOCATIONS.c.id == RUNS.c.invocation, isouter=True)
        .where(RUNS.c.id.in_(runs))
    )
    found = connection.execute(statement).fetchall()
    subjects = _subjects(connection, {row.session for row in found})
    parameters = _parameters(connection, runs)
    return {row.id: _run_facts(row, subjects.get(row.session, {}), parameters.get(row.id, {})) for row in found}


def _run_facts(row: Any, subjects: Mapping[str, tuple[str, bool]], parameters: Mapping[str, str]) -> RunFacts:
    commit, dirty = _commit_of(row)
    own = {"": (commit, bool(dirty))} if commit else {}
    states = {**own, **subjects}
    is_here = not row.node or row.node == row.host
    return RunFacts(
        row.definition_hash,
        row.circumstances,
        row.python_version,
        commits={name: said for name, (said, _) in states.items()},
        changed=frozenset(name for name, (_, dirty) in states.items() if dirty),
        parameters=parameters,
        environment=(row.environment or {}) if is_here else {},
    )


def _commit_of(row: Any) -> tuple[str | None, bool | None]:
    """Return the commit of a run's invocation: its session may have been joined at another commit."""
    state = (row.environment or {}).get("session_commit") or {}
    return (state["commit"], state.get("dirty")) if state.get("commit") else (row.commit, row.dirty)


def _subjects(connection: Connection, sessions: Collection[int]) -> dict[int, dict[str, tuple[str, bool]]]:
    """Read the packages under test by session: commit or version, and whether files were changed."""
    statement = select(SUBJECTS).where(SUBJECTS.c.session.in_(sessions)).order_by(SUBJECTS.c.id)
    found: dict[int, dict[str, tuple[str, bool]]] = defaultdict(dict)
    for row in connection.execute(statement):
        if said := row.commit or row.version:
            found[row.session][row.package] = (said, bool(row.dirty))
    return found


def _parameters(connection: Connection, runs: Collection[int]) -> dict[int, dict[str, str]]:
    found: dict[int, dict[str, str]] = defaultdict(dict)
    for run, name, value in connection.execute(select(PARAMS).where(PARAMS.c.run.in_(runs))):
        found[run][name] = value
    return found
