"""Who imports whom, module by module: no cycle at all, and nothing imports the package itself."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest

import curator_bench

ASKED_FOR = ("cluster.model", "measure.sampler", "sinks.sink", "study", "values")
"""What the package imports when somebody asks for a name of its `__all__`."""


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """The modules that each module imports, in functions too."""
    graph = grimp.build_graph("curator_bench", exclude_type_checking_imports=True, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def test_no_module_imports_itself_by_a_detour(imports: dict[str, set[str]]) -> None:
    """`curator_bench` imports what users ask it for when they do; so nothing below may import it."""
    for_users = {getattr(curator_bench, name).__module__ for name in curator_bench.__all__}
    with_names = {**imports, "curator_bench": imports["curator_bench"] | for_users}
    try:
        TopologicalSorter(with_names).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_only_the_runner_calls_both_what_runs_and_what_records(imports: dict[str, set[str]]) -> None:
    rooms: dict[str, set[str]] = {}
    for module, imported in imports.items():
        rooms.setdefault(room(module), set()).update(map(room, imported))
    assert {name for name, used in rooms.items() if {"execution", "store"} <= used} == {"runner"}


def room(module: str) -> str:
    return f"{module}.".split(".")[1]
