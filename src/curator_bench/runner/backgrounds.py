"""The background of a run, as recorded with secrets masked: definition, packages, machine, variables, configuration."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import pytest

from curator_bench.causes.recorded import facts_from
from curator_bench.causes.what_changed import Facts
from curator_bench.cluster.environment import without_pytest, without_ray
from curator_bench.collection.benchmarks import BENCHMARKS
from curator_bench.masking import Mask, is_secret_name, masked, without_secret_literals
from curator_bench.matrix import Definition
from curator_bench.runner.session import provenance_of, session_of
from curator_bench.store.backgrounds import RunFacts
from curator_bench.store.records import Background, DefinitionRecord
from curator_bench.store.scalars import text_of
from curator_bench.values import Plan, Where

_LONGEST_SOURCE = 200_000


def background_of(
    config: pytest.Config,
    definition: Definition | None,
    mask: Mask,
    plan: Plan | None = None,
    where: Where | None = None,
) -> Background:
    """Return the background of a run in this process, or of a plan that runs somewhere in a fleet."""
    return Background(
        _definition(definition, mask) if definition else None,
        {kind: facts for kind, facts in _circumstances(config, plan, where).items() if facts},
    )


def facts_now(config: pytest.Config, background: Background, params: Mapping[str, Any]) -> Facts:
    """Return the facts of the run being judged. Its row does not have all of them yet."""
    session = session_of(config)
    own = {"": session.commit} if session.commit else {}
    subjects = {one.package: one.commit or one.version or "" for one in session.subjects}
    changed = {one.package for one in session.subjects if one.dirty} | ({""} if session.dirty else set())
    run = RunFacts(
        background.definition.uid if background.definition else None,
        background.circumstances_uid,
        None,
        commits={**own, **{name: said for name, said in subjects.items() if said}},
        changed=frozenset(changed),
        parameters={name: text_of(value) or "" for name, value in params.items()},
        environment={},
    )
    return facts_from(run, background)


def _definition(definition: Definition, mask: Mask) -> DefinitionRecord:
    content = {name: _shown(part) for name, part in definition.content.items()}
    sources = {name: without_secret_literals(text)[:_LONGEST_SOURCE] for name, text in definition.sources.items()}
    return DefinitionRecord(
        definition.hash, definition.series, definition.content_hash, masked(content, mask), masked(sources, mask)
    )


def _shown(part: Any) -> Any:
    """Hide parameters and variables whose names say that they are secret."""
    if not isinstance(part, Mapping):
        return part
    return {name: "***" if is_secret_name(name) else _shown(value) for name, value in part.items()}


def _circumstances(config: pytest.Config, plan: Plan | None, where: Where | None) -> dict[str, Mapping[str, str]]:
    configuration = _configuration(config, plan)
    if where is not None:  # a fleet's runs do not inherit our environment
        return {**where.circumstances, "configuration": configuration}
    provenance = provenance_of(config)
    found = provenance.circumstances(plan.python if plan else sys.executable)
    seen = without_pytest(without_ray(provenance.variables))
    return {**found, "environment": seen, "configuration": configuration}


def _configuration(config: pytest.Config, plan: Plan | None) -> dict[str, str]:
    """Return the settings of the measurement."""
    fleet = config.stash[BENCHMARKS].settings.fleet
    found = {"workers": getattr(config, "workerinput", {}).get("workercount", 1), "fleet": "yes" if fleet else "no"}
    if fleet is not None:
        found |= {"max runs": fleet.max_runs or "any", "runs per gpu": fleet.runs_per_gpu}
    if plan is not None:
        found |= {"repeat": plan.repeat, "warmup": plan.warmup, "timeout_s": f"{plan.timeout_s:g}"}
        found |= {"samplers": " ".join(plan.samplers), "cluster provider": plan.cluster_provider}
    return {name: str(value) for name, value in found.items() if value != ""}
