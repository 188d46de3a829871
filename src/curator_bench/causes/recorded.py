"""The recorded facts of runs, also of runs of older releases, which recorded no circumstances."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from curator_bench.causes.what_changed import Facts, flat
from curator_bench.store.backgrounds import Backgrounds, RunFacts, run_facts
from curator_bench.store.entry_axes import AXES
from curator_bench.store.records import Background

if TYPE_CHECKING:
    from sqlalchemy import Connection

_OF_A_CAPTURE = frozenset(
    {
        *("schema_version", "captured_at", "boot_id", "load_average", "session_commit", "subjects", "host"),
        *("machine_id", "container_host", "cuda_visible_devices"),
    }
)
"""Names in `invocation.environment` that tell nothing about the machine, or are recorded elsewhere."""
_ABSENT = frozenset({"", "None", "[]"})


def facts_of(connection: Connection, runs: Collection[int]) -> dict[int, Facts]:
    """Read the facts of these runs, given the ids of their rows. Meant for a few runs."""
    backgrounds = Backgrounds(connection)
    return {
        number: facts_from(one, backgrounds.of(one.definition_hash, one.circumstances))
        for number, one in run_facts(connection, runs).items()
    }


def facts_from(run: RunFacts, background: Background) -> Facts:
    """Bring together what the tables say about a run."""
    definition, circumstances = background.definition, background.circumstances
    return Facts(
        commits=run.commits or None,
        changed=run.changed,
        definition=flat(_without_axes(definition.content)) if definition else None,
        sources=definition.sources if definition else {},
        content_hash=definition.content_hash if definition else None,
        parameters=run.parameters,
        packages=_texts(circumstances, "packages"),
        configuration=_texts(circumstances, "configuration"),
        machine=_texts(circumstances, "machine") or _machine_of(run),
        environment=_texts(circumstances, "environment"),
    )


def _without_axes(content: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the values of axes: older releases did not record them, and the arguments they are used in differ."""
    return {name: part for name, part in content.items() if name != AXES}


def _texts(circumstances: Mapping[str, Any], kind: str) -> dict[str, str] | None:
    found = circumstances.get(kind)
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, Mapping) else None


def _machine_of(run: RunFacts) -> dict[str, str] | None:
    """Return what older releases recorded of the machine: with the invocation, and in columns of the run."""
    known = {name: value for name, value in run.environment.items() if name not in _OF_A_CAPTURE}
    shown = {name: text for name, text in flat(known).items() if text not in _ABSENT}
    return {**shown, **({"python": run.python_version} if run.python_version else {})} or None
