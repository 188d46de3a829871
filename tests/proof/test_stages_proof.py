"""The stage that became slower is named, in pipelines simulated event by event; where nothing differs none is."""

from __future__ import annotations

import json
import os

import pytest
from simulated_pipelines import SHAPES, Case, measure

FULL = os.environ.get("CURATOR_BENCH_PROOF") == "full"
SEEDS = 400 if FULL else 40
FIRST = 50_000
"""Nobody has looked at pipelines of these seeds while the rule was made; whoever changes the rule takes others."""
NAMED = 0.95
MOST_WRONG = 0.01 if FULL else 0.025
"""Of 40 seeds one may be named by chance."""


@pytest.mark.parametrize("shape", SHAPES)
def test_the_slower_stage_is_named_first(shape: str) -> None:
    found = measure(Case(shape), SEEDS, first=FIRST)
    print(json.dumps(found))
    assert found["named_first"] >= NAMED
    assert found["others_named"] <= 2 * MOST_WRONG


@pytest.mark.parametrize("shape", SHAPES)
def test_where_nothing_differs_no_stage_is_named(shape: str) -> None:
    found = measure(Case(shape, slower=0.0), SEEDS, first=FIRST + SEEDS)
    print(json.dumps(found))
    assert found["any_named"] <= MOST_WRONG


@pytest.mark.parametrize("shape", SHAPES)
def test_a_slower_machine_is_told_from_a_slower_stage(shape: str) -> None:
    found = measure(Case(shape, slower=0.0, all_slower=0.1), SEEDS // 4, first=FIRST + 2 * SEEDS)
    print(json.dumps(found))
    assert found["shared_said"] >= NAMED
    assert found["any_named"] <= (0.02 if FULL else 0.1)
