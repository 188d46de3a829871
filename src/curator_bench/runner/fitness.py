"""The short answer of the doctor about this machine: kept in session.json, with a line on the terminal if grave."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from curator_bench.collection.benchmarks import BENCHMARKS
from curator_bench.doctor.conditions import Condition, State
from curator_bench.doctor.examination import glance_at_machine

_CONDITIONS = pytest.StashKey[Sequence[Condition]]()


def conditions_of(config: pytest.Config) -> Sequence[Condition]:
    """Look at this machine once, in the controller and before anything runs. It takes some milliseconds."""
    if _CONDITIONS not in config.stash:
        config.stash[_CONDITIONS] = _looked_at(config)
    return config.stash[_CONDITIONS]


def _looked_at(config: pytest.Config) -> Sequence[Condition]:
    try:
        return [*glance_at_machine([config.stash[BENCHMARKS].session_dir])]
    except Exception as error:  # no run depends on it
        logging.getLogger(__name__).warning("the machine was not looked at: %s: %s", type(error).__name__, error)
        return ()


def fitness_document(config: pytest.Config) -> list[dict[str, str]]:
    """Return what was found, for session.json."""
    return [
        {"name": one.name, "state": str(one.state), "found": one.found}
        for one in conditions_of(config)
        if one.state is not State.UNKNOWN
    ]


def unfit_line(config: pytest.Config) -> str:
    """Return one short line about what makes runs fail here; empty if nothing does, or if the user does not mind.

    What makes times scatter is left to `curator-bench doctor`: most machines have some of it, in each session.
    """
    if config.stash[BENCHMARKS].settings.disturbed_count:
        return ""
    return unfit(conditions_of(config))


def unfit(conditions: Sequence[Condition]) -> str:
    grave = dict.fromkeys(one.name for one in conditions if one.is_grave)
    return f"this machine is short of what runs need: {', '.join(grave)}; see `curator-bench doctor`" if grave else ""
