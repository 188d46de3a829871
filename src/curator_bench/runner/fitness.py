"""The short answer of the doctor about this machine: kept in session.json, with a line on the terminal if bad."""

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
    """Return a line about what makes measurements scatter here; empty if nothing does, or if the user does not mind."""
    if config.stash[BENCHMARKS].settings.disturbed_count:
        return ""
    bad = [f"{one.name} ({one.found})" for one in conditions_of(config) if one.state is State.WARNING]
    said = f"this machine is not at its best: {', '.join(bad)}; `curator-bench doctor` says what each costs"
    return said if bad else ""
