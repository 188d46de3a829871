"""Environments between two lists: what this Python has is used, what a list lacks is taken away, and all are kept."""

from __future__ import annotations

import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from curator_bench.hunting.building import Venv
from curator_bench.hunting.mixed_environments import MixedEnvironments
from curator_bench.hunting.package_lists import PackageList
from curator_bench.hunting.package_units import changes_between

NAMES = "hypothesis", "pytest", "curator_bench"
"""Of these, curator-bench needs all but the first."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def listed(name: str, *packages: str) -> PackageList:
    """These packages in the versions that this Python has."""
    return PackageList(name, {one: f"{one}=={metadata.version(one)}" for one in packages})


def found(venv: Venv) -> list[bool]:
    program = f"from importlib.util import find_spec; print(*(find_spec(name) is not None for name in {NAMES}))"
    said = subprocess.check_output([venv.python, "-P", "-c", program], text=True)
    return [word == "True" for word in said.split()]


@pytest.mark.slow
def test_what_a_list_lacks_is_taken_away_unless_curator_bench_needs_it() -> None:
    told = list[str]()
    environments = MixedEnvironments(listed("a", "numpy"), listed("b", "numpy", "hypothesis", "pytest"), told.append)
    environments.build_ends()
    changes = changes_between(*environments.packages)
    assert [str(one) for one in changes] == [f"hypothesis added ({metadata.version('hypothesis')})"]
    assert list(environments.fixed()) == ["pytest: curator-bench needs it, so it cannot be taken away"]
    first, second = environments.ends
    assert found(environments.built(first)) == [False, True, True]
    assert found(environments.built(second)) == [True, True, True]
    assert found(environments.built(environments.mix("as a", frozenset()))) == [False, True, True]
    assert found(environments.built(environments.mix("as b", frozenset({"hypothesis"})))) == [True, True, True]
    assert told == ["a: installing", "b: installing", "as a: installing", "as b: installing"]
    told.clear()
    again = MixedEnvironments(listed("a", "numpy"), listed("b", "numpy", "hypothesis", "pytest"), told.append)
    again.build_ends()
    assert (told, again.packages) == ([], environments.packages), "they are kept"


def test_a_package_from_a_folder_that_both_lists_have_is_the_one_that_is_here() -> None:
    url = "curator-bench-tests @ file:///nowhere"
    lists = [PackageList(name, {"curator-bench-tests": url, "hypothesis": url}) for name in "ab"]
    environments = MixedEnvironments(lists[0], lists[1], lambda _: None)
    assert [end.pins for end in environments.ends] == 2 * [(url,)], "only what is not here"
