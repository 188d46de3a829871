"""The function that became slower is named: in simulated profiles, and in real programs that py-spy profiles."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import warm
from proof.profiled_programs import FUNCTIONS, KINDS, ROUND_S, Program, iterations_per_ms
from simulated_profiles import Case, measure

from curator_bench.execution.profilers.py_spy import program as py_spy

if TYPE_CHECKING:
    from end_to_end.conftest import Project

FULL = os.environ.get("CURATOR_BENCH_PROOF") == "full"
CASES = 400 if FULL else 40
ALIKE = 2000 if FULL else 100
FIRST = 80_000
"""Nobody has looked at programs of these seeds while the rule was made; whoever changes the rule takes others."""
NAMED = 0.95 if FULL else 0.85
"""Of 20 cases, three may be missed by chance."""
MOST_WRONG = 0.01 if FULL else 0.03
SEEDS = dict(zip(KINDS, range(11, 11 + len(KINDS)), strict=True))
RUNS, SECONDS, FACTOR = (2, 12.0, 3.0) if FULL else (1, 8.0, 6.0)


@pytest.mark.parametrize("waits", [False, True])
def test_the_slower_function_is_named_first_or_as_the_direct_caller(waits: bool) -> None:
    found = measure(Case(waits=waits), CASES // 2, first=FIRST + waits * CASES)
    print(json.dumps(found))
    assert found["named_first"] >= NAMED
    assert found["others_named"] <= 2 * MOST_WRONG


def test_where_nothing_differs_no_function_is_named() -> None:
    found = measure(Case(slower=0.0), ALIKE, first=FIRST + 2 * CASES)
    print(json.dumps(found))
    assert found["any_named"] <= MOST_WRONG


@pytest.mark.parametrize("kind", KINDS if FULL else ["lock"])
def test_the_slower_function_of_a_real_program_is_named(new_project: Callable[[], Project], kind: str) -> None:
    """From the profiles of its runs to the answer of `curator-bench why`."""
    if py_spy() is None:
        pytest.skip("py-spy is not installed")
    project, program, per_ms = new_project(), Program(SEEDS[kind], kind), iterations_per_ms()
    arguments = f"{per_ms} {round(SECONDS / ROUND_S)}"
    project.matrix({"name": "program", "script": "program.py", "args": arguments, "ray": False}, default_timeout_s=300)
    file = project.folder / "program.py"
    for side, factor in (("before", 1.0), ("after", FACTOR)):
        file.write_text(program.text(factor))
        assert file.read_text().count("def function_") == FUNCTIONS
        for run in range(RUNS):
            options = ("--benchmark", "--bench-disturbed", "count", "--bench-session", f"{side}_{run}")
            outcome = project.outcome(project.start(*options, "--bench-profile", "py-spy"), within_s=600)
            assert outcome.code == 0, outcome.output
    (functions,) = why(project)["functions"]
    print(json.dumps({kind: functions["named"], "visible": functions["smallest_visible_change"]}))
    first = functions["named"][0]
    around = first["function"], *first["callers"][:2]  # who waits in threading does so through one function more
    assert f"program:function_{program.guilty}" in around
    # What is spread over functions of a library is the total of who calls them.
    assert first["time"] in ("computing" if kind in ("compute", "shared") else "waiting", "total")


def why(project: Project) -> dict[str, Any]:
    words = ("why", "program", "--since", "after_0", "--json", "--db", "benchmark.db")
    done = warm.run("curator-bench", *words, cwd=project.folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
